"""A consumer that gets nothing: KIND BOOTSTRAP GROUP TOPIC. Prints ASSIGNED once it owns something.

Everything is at the client's own defaults, as a user leaves it.
"""

import asyncio
import sys
import warnings
from collections.abc import Callable, Mapping

with warnings.catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    warnings.filterwarnings("ignore", "(open|read)_text is deprecated", DeprecationWarning)
    from aiokafka import AIOKafkaConsumer
    from confluent_kafka import Consumer
    from kafka import KafkaConsumer

    from tests.clients.kafka_python import poll

POLL_S = 1.0


def tell(partitions: object) -> bool:
    """Say that something is owned, when it is."""
    if partitions:
        print("ASSIGNED", flush=True)  # noqa: T201 - how a program speaks to its test
    return bool(partitions)


def confluent(bootstrap: str, group: str, topic: str, **settings: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **settings})
    consumer.subscribe([topic])
    has_told = False
    while True:
        consumer.poll(POLL_S)
        has_told = has_told or tell(consumer.assignment())


def confluent_consumer_protocol(bootstrap: str, group: str, topic: str) -> None:
    confluent(bootstrap, group, topic, **{"group.protocol": "consumer"})


def kafka_python(bootstrap: str, group: str, topic: str) -> None:
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap.split(","), group_id=group)
    has_told = False
    while True:
        poll(consumer, int(POLL_S * 1000))
        has_told = has_told or tell(consumer.assignment())


def aiokafka(bootstrap: str, group: str, topic: str) -> None:
    async def run() -> None:
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap.split(","), group_id=group)
        await consumer.start()
        has_told = False
        while True:
            await consumer.getmany(timeout_ms=int(POLL_S * 1000))
            has_told = has_told or tell(consumer.assignment())

    asyncio.run(run())


KINDS: Mapping[str, Callable[[str, str, str], None]] = {
    "confluent-kafka classic": confluent,
    "confluent-kafka consumer": confluent_consumer_protocol,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}

if __name__ == "__main__":
    KINDS[sys.argv[1]](*sys.argv[2:])
