"""The same with aiokafka: a verb blocks, so it runs beside the event loop of the clients."""

import asyncio

from aiokafka import AIOKafkaConsumer


def test_a_group_rebalances_and_the_consumer_keeps_its_partitions(rollcall_cluster):
    topic, group = rollcall_cluster.topic(3), rollcall_cluster.group()

    async def scene():
        consumer = AIOKafkaConsumer(
            topic, group_id=group, bootstrap_servers=rollcall_cluster.bootstrap
        )
        await consumer.start()
        try:
            await asyncio.to_thread(rollcall_cluster.await_assigned, group, partitions=3)
            await asyncio.to_thread(rollcall_cluster.force_rebalance, group)
            await asyncio.to_thread(rollcall_cluster.await_assigned, group, partitions=3)
            return await asyncio.to_thread(rollcall_cluster.explain, group)
        finally:
            await consumer.stop()

    assert "a test forces a rebalance" in asyncio.run(scene())


def test_what_was_committed_survives_the_coordinator(rollcall_cluster):
    topic, group = rollcall_cluster.topic(1), rollcall_cluster.group()

    async def scene():
        consumer = AIOKafkaConsumer(
            topic,
            group_id=group,
            bootstrap_servers=rollcall_cluster.bootstrap,
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            await asyncio.to_thread(rollcall_cluster.await_assigned, group)
            (partition,) = consumer.assignment()
            await consumer.commit({partition: 7})
            await asyncio.to_thread(rollcall_cluster.kill_coordinator, group)
            return await consumer.committed(partition)
        finally:
            await consumer.stop()

    assert asyncio.run(scene()) == 7
