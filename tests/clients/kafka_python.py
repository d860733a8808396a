"""How tests use a consumer of kafka-python."""

from typing import Any

from kafka import KafkaConsumer

from tests.waiting import WITHIN_S, patient

BOOTSTRAP_MS = int(WITHIN_S * 1000)
CLOSE_MS = int(patient(2) * 1000)
"""How long a client may look for a server, and may take to leave its group."""


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
