"""One Kafka and one cluster of ours for all comparisons of tools, and a conversation with both."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.clients import servers
from tests.clients.confluent import create_topics
from tests.clients.java import java
from tests.clients.tools.side_by_side import PARTITIONS, TOPIC, Both, Tools

SESSION_MS = "3600000"

SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.consumer.max.session.timeout.ms": SESSION_MS,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.share.max.session.timeout.ms": SESSION_MS,
    "group.share.session.timeout.ms": SESSION_MS,
    "group.streams.max.session.timeout.ms": SESSION_MS,
    "group.streams.session.timeout.ms": SESSION_MS,
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
"""Sessions outlast the conversation; each change has its own assignment, as in Kafka 4.3.1."""


@pytest.fixture(scope="package")
def bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Start a Kafka and a cluster of ours."""
    java()
    with ExitStack() as stack:
        found = []
        for kind in (servers.KafkaServer, servers.RollcallServer):
            directory = tmp_path_factory.mktemp(kind.__name__)
            server = kind(directory, {**servers.COMMON, **SETTINGS}, 1)
            stack.callback(server.close)
            server.start()
            create_topics(server.bootstrap, [TOPIC], PARTITIONS)
            found.append(server.bootstrap)
        yield found[0], found[1]


@pytest.fixture(scope="package")
def tools(bootstraps: tuple[str, str]) -> Iterator[Sequence[Tools]]:
    """Start a virtual machine for Kafka's tools beside each."""
    with ExitStack() as stack:
        started = [Tools(bootstrap) for bootstrap in bootstraps]
        for each in started:
            stack.callback(each.close)
        yield started


@pytest.fixture
def both(bootstraps: tuple[str, str], tools: Sequence[Tools]) -> Iterator[Both]:
    """Hold one conversation with each."""
    with ThreadPoolExecutor(2) as pool:
        made = Both(bootstraps, tools, pool)
        try:
            yield made
        finally:
            made.close()
