"""How tests poll a consumer of kafka-python."""

from typing import Any

from kafka import KafkaConsumer


def poll(consumer: KafkaConsumer, timeout_ms: int) -> Any:
    """Poll, and go on with a join that the last poll began.

    A leader of kafka-python 3.0.12 forgets the join if the poll ends between the answers to
    JoinGroup and SyncGroup and new metadata was the reason to join: it then believes that it need
    not join, refuses to commit ("undergoing a rebalance") and sends no heartbeat any more.
    """
    coordinator = consumer._coordinator
    if coordinator is not None and coordinator.rejoining:
        coordinator.request_rejoin()
    return consumer.poll(timeout_ms=timeout_ms)
