"""A running cluster of ours with a console, and members of a group, for tests and pictures."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException

from failover.routing import partition_for
from tests.clients.confluent import POLL_S, create_topics, quiet_consumer
from tests.conftest import RunningCluster
from tests.waiting import SESSION_MS, patient, until

NODES = 3
SETTINGS = {
    "console.actions.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": str(NODES),
}
WELL_S = patient(120)


@contextmanager
def real_cluster(directory: Path) -> Iterator[RunningCluster]:
    """Start three coordinators whose console may act; wait until all is replicated."""
    sets = [word for pair in SETTINGS.items() for word in ("--set", "=".join(pair))]
    with ExitStack() as stack:
        made = RunningCluster(directory / "data", tuple(sets))
        stack.callback(made.close)
        made.start()
        await_well(made)
        yield made


def is_well(status: dict[str, Any]) -> bool:
    """Whether all coordinators run and every partition has all its replicas."""
    return not status["under_replicated"] and all(
        row["state"] == "Running" for row in status["coordinators"]
    )


def await_well(cluster: RunningCluster) -> dict[str, Any]:
    """Wait until a cluster is whole; return its status."""
    return until(
        lambda: is_well(status := cluster.status()) and status, WELL_S, "the cluster is whole"
    )


def group_of(partition: int, stem: str = "orders") -> str:
    """Return the name of a group that a partition coordinates."""
    names = (f"{stem}-{number}" if number else stem for number in range(100))
    return next(name for name in names if partition_for(name, NODES) == partition)


class PolledMembers:
    """Consumers of one group that a thread polls, so that a browser can be waited for meanwhile."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, protocol: str) -> None:
        self._wanted = bootstrap, group_id, protocol, topic
        self._members: dict[str, Consumer] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll, name=f"members of {group_id}")
        self._thread.start()

    def join(self, client_id: str) -> None:
        """Let a member join."""
        bootstrap, group_id, protocol, topic = self._wanted
        made = quiet_consumer(
            bootstrap, group_id, client_id, protocol, topic,
            session_timeout_ms=3 * SESSION_MS, heartbeat_interval_ms=500,
        )  # fmt: skip
        with self._lock:
            self._members[client_id] = made

    def leave(self, client_id: str) -> None:
        """Let a member leave."""
        with self._lock:
            left = self._members.pop(client_id)
        left.close()

    def owned(self) -> dict[str, int]:
        """Return how many partitions each member has."""
        with self._lock:
            return {name: len(each.assignment()) for name, each in self._members.items()}

    def await_all_own(self, partitions: int) -> None:
        """Wait until all partitions are owned, some by each member."""

        def is_shared() -> bool:
            counts = self.owned().values()
            return sum(counts) == partitions and all(counts)

        until(is_shared, WELL_S, "each member has its share")

    def close(self) -> None:
        """Let all members leave."""
        self._closing.set()
        self._thread.join()
        for each in self._members.values():
            each.close()

    def _poll(self) -> None:
        while not self._closing.wait(POLL_S):
            with self._lock:
                for each in self._members.values():
                    with suppress(KafkaException):
                        if (message := each.poll(0)) is not None and message.error() is None:
                            each.commit(message, asynchronous=True)


@contextmanager
def members_of(
    bootstrap: str, group_id: str, partitions: int, protocol: str = "classic"
) -> Iterator[PolledMembers]:
    """Create a group's topic, which has its name; its members are to join."""
    create_topics(bootstrap, [group_id], partitions)
    with closing(PolledMembers(bootstrap, group_id, group_id, protocol)) as made:
        yield made
