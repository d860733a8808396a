"""``rollcall explain``: real clients rebalance, and the command says why, over the wire."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import Consumer

from actors.cli import main as cli
from tests.actors.coordinator.coordinators import Cluster, running
from tests.clients.confluent import create_topics
from tests.waiting import WITHIN_S, until

TOPIC = "orders"
PARTITIONS = 4
PROTOCOLS = ("classic", "consumer")
NUMBERS = {"classic": "generation", "consumer": "epoch"}

Explain = Callable[..., str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running(2) as cluster:
        create_topics(cluster.bootstrap, [TOPIC], PARTITIONS)
        yield cluster


@pytest.fixture
def explain(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Run ``rollcall explain`` with these words, and return what it printed."""

    def run(*words: str) -> str:
        capsys.readouterr()
        assert cli.main(["explain", *words, "--bootstrap-server", cluster.bootstrap]) == 0
        return capsys.readouterr().out

    return run


def consumer(cluster: Cluster, group: str, client_id: str, protocol: str) -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": group,
        "client.id": client_id,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "log_level": 0,
    }
    if protocol == "classic":
        settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200}
    made = Consumer(settings)
    made.subscribe([TOPIC])
    return made


def share_out(consumers: Sequence[Consumer]) -> None:
    def is_done() -> bool:
        for each in consumers:
            each.poll(0.02)
        counts = [len(each.assignment()) for each in consumers]
        return sum(counts) == PARTITIONS and all(counts)

    until(is_done, WITHIN_S, "every consumer has its share")


def told(explain: Explain, group: str, pattern: str) -> str:
    """Wait until a line of the explanation fits; stories are told a moment later."""

    def line() -> str:
        lines = explain(group).splitlines()
        return next((each for each in lines if re.search(pattern, each)), "")

    try:
        return until(line, WITHIN_S, f"a story like {pattern!r}")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{explain(group)}") from None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_rebalance_has_a_sentence(cluster: Cluster, explain: Explain, protocol: str) -> None:
    group, number = f"told-{protocol}", NUMBERS[protocol]
    with ExitStack() as stack:
        first = stack.enter_context(closing(consumer(cluster, group, "web-1", protocol)))
        share_out([first])
        told(explain, group, rf"{number} .*: member web-1 \(127\.0\.0\.1\) joined.*4 .* newly")
        second = consumer(cluster, group, "web-2", protocol)
        share_out([first, second])
        told(explain, group, rf"{number} .*: member web-2 \(127\.0\.0\.1\) joined.*2 of 4 .* moved")
        second.close()
        share_out([first])
        told(explain, group, rf"{number} .*: member web-2 \(127\.0\.0\.1\) left.*2 of 4 .* moved")
    document = json.loads(explain(group, "--json"))
    story = next(each for each in document["rebalances"] if " left" in each["sentence"])
    assert story["who"]["software"].startswith("confluent-kafka")
    assert story["kept"] == 2
    assert {(each["before"], each["after"]) for each in story["moves"]} == {("web-2", "web-1")}


def test_a_group_that_nobody_knows(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "nobody", "--bootstrap-server", cluster.bootstrap]) == 1
    assert capsys.readouterr().err.startswith(
        "rollcall: there is no group nobody, and no rebalance"
    )
