"""Clusters whose nodes a benchmark may kill: ours, and real Kafka for comparison."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from actors.waiting import poll
from bench.client.blocking_client import BlockingClient
from bench.load.offsets import groups_on
from bench.servers.kafka import kafka_cluster
from bench.servers.rollcall import running_rollcall
from bench.servers.server import Server, StartError, serving_processes
from protocol.wire.messages import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.servers.kafka import Kafka
    from bench.servers.live_cluster import LiveCluster

OFFSETS_TOPIC = "__consumer_offsets"
WHOLE_SECONDS = 120
POLL_SECONDS = 0.2

Address = tuple[str, int]


class RestartableCluster(Protocol):
    """Several nodes, each of which may be killed and returns."""

    name: str

    @property
    def bootstrap(self) -> tuple[Address, ...]:
        """Every node's address, which does not change."""

    @property
    def server(self) -> Server:
        """The serving processes in the form that benchmarks use."""

    def kill(self, address: Address) -> None:
        """``kill -9`` the node that listens there; it stays dead or is restarted automatically."""

    def start_again(self, address: Address) -> None:
        """Ensure that the killed node returns."""

    def is_whole(self) -> bool:
        """Whether every node is up and every replica in sync."""


class RollcallCluster:
    """Three coordinators; Ray restarts a killed one."""

    name = "rollcall"

    def __init__(self, live: LiveCluster) -> None:
        self.live = live

    @property
    def bootstrap(self) -> tuple[Address, ...]:
        """Every node's address."""
        return self.live.bootstrap

    @property
    def server(self) -> Server:
        """The coordinators in the form that benchmarks use."""
        serving = serving_processes(self.bootstrap)
        return Server(name=self.name, bootstrap=self.bootstrap, root=os.getpid(), serving=serving)

    def kill(self, address: Address) -> None:
        """``kill -9``."""
        self.live.kill([self.bootstrap.index(address)])

    def start_again(self, address: Address) -> None:
        """Do nothing: Ray restarts it."""

    def is_whole(self) -> bool:
        """Whether every partition is led and every replica in sync."""
        return self.live.is_replicated()


class KafkaCluster:
    """Three brokers."""

    name = "kafka"

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka

    @property
    def bootstrap(self) -> tuple[Address, ...]:
        """Every broker's address."""
        return self.kafka.bootstrap

    @property
    def server(self) -> Server:
        """The brokers in the form that benchmarks use."""
        return self.kafka.server

    def kill(self, address: Address) -> None:
        """``kill -9``."""
        self.kafka.kill(self.bootstrap.index(address))

    def start_again(self, address: Address) -> None:
        """Start the broker."""
        self.kafka.start_again(self.bootstrap.index(address))

    def is_whole(self) -> bool:
        """Whether every replica of the offsets topic is in sync."""
        request = MetadataRequest(
            topics=(MetadataRequestTopic(topic_id=None, name=OFFSETS_TOPIC),),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        for address in self.bootstrap:
            with contextlib.suppress(OSError), BlockingClient(address) as connection:
                answer = connection.ask(request)
                partitions = [each for topic in answer.topics for each in topic.partitions]
                return bool(partitions) and all(
                    len(each.isr_nodes) == len(self.bootstrap) for each in partitions
                )
        return False


@contextlib.contextmanager
def rollcall_cluster(
    overrides: Mapping[str, str], racks: Sequence[str] = ()
) -> Iterator[RollcallCluster]:
    """Start a cluster of ours, connected to its Ray, and stop it at the end.

    Its nodes are on these ``racks``, in turn.
    """
    from actors.cluster import node_rack, registry

    directory = Path(tempfile.mkdtemp(prefix="rollcall-bench-"))
    try:
        on_racks = {node_rack.VARIABLE: node_rack.SEPARATOR.join(racks)} if racks else {}
        with running_rollcall(overrides, directory / "data", {**os.environ, **on_racks}):
            found = registry.find(directory / "data", directory / "data")
            if found is None:
                raise StartError("The cluster that was started is not there.")
            found.prepare_to_connect()
            from actors.deployment import actors
            from bench.servers.live_cluster import LiveCluster

            with actors.connected(found.address):
                ours = RollcallCluster(LiveCluster(found))
                wait_until_whole(ours)
                yield ours
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def three_brokers(overrides: Mapping[str, str]) -> Iterator[KafkaCluster]:
    """Start three brokers and wait until the offsets topic exists; stop them at the end."""
    with kafka_cluster(3, overrides) as kafka:
        theirs = KafkaCluster(kafka)
        with BlockingClient(theirs.bootstrap[0]) as connection:
            connection.coordinator("bench")  # the first request creates the topic
        wait_until_whole(theirs)
        for partition in range(len(theirs.bootstrap)):
            _wait_until_coordinated(theirs, next(groups_on(partition, 3, "bench")))
        yield theirs


def _wait_until_coordinated(cluster: RestartableCluster, group_id: str) -> None:
    """Wait until the node named as a group's coordinator knows that it is the coordinator."""

    def look() -> bool:
        with BlockingClient(cluster.bootstrap[0]) as connection:
            address = connection.coordinator(group_id)
        with BlockingClient(address) as connection:
            return not connection.describe((group_id,))[0].error_code.retriable

    if not poll(look, WHOLE_SECONDS, every_s=POLL_SECONDS):
        raise StartError(f"{cluster.name} did not coordinate within {WHOLE_SECONDS} s.")


def each_in_turn(overrides: Mapping[str, str], with_kafka: bool) -> Iterator[RestartableCluster]:
    """Start ours, yield it, stop it; then Kafka: both at once would share two cores."""
    with rollcall_cluster(overrides) as ours:
        yield ours
    if with_kafka:
        with three_brokers(overrides) as theirs:
            yield theirs


def wait_until_whole(cluster: RestartableCluster) -> None:
    """Wait until every node is back and in sync."""
    if not poll(cluster.is_whole, WHOLE_SECONDS, every_s=POLL_SECONDS):
        raise StartError(f"{cluster.name} was not whole within {WHOLE_SECONDS} s.")
