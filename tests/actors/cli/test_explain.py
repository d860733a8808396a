"""``rollcall explain``: real clients rebalance, and the command says why, over the wire."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer

from actors.cli import main as cli
from actors.cli import stories
from actors.cli.client import Address, AdminClient, ClientError, parse_bootstrap
from failover.apis.stories import STORIES
from failover.catalogue.cluster_view import GROUP
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode
from tests.actors.coordinator.coordinators import Cluster, running
from tests.clients.confluent import create_topics, quiet_consumer, wait_until_all_own
from tests.clients.modern_members import Member as MovedMember
from tests.clients.modern_members import ShareMember, StreamsMember
from tests.waiting import SESSION_MS, WITHIN_S, until

ROOT = Path(__file__).parents[3]
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
    return quiet_consumer(
        cluster.bootstrap, group, client_id, protocol, TOPIC,
        session_timeout_ms=SESSION_MS, heartbeat_interval_ms=200,
    )  # fmt: skip


def share_out(consumers: Sequence[Consumer]) -> None:
    wait_until_all_own(consumers, PARTITIONS, WITHIN_S)


def told(explain: Explain, group: str, pattern: str) -> list[str]:
    """Wait until a line of the explanation fits, and return it and those that follow.

    Stories are told a moment later.
    """

    def line() -> list[str]:
        lines = explain(group).splitlines()
        fits = [n for n, each in enumerate(lines) if re.search(pattern, each)]
        return lines[fits[0] :] if fits else []

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
    assert (story["kept"], story["revoked"]) == (2, 0)
    joined = next(each for each in document["rebalances"] if "web-2" in each["sentence"])
    assert (joined["kept"], joined["revoked"]) == (2, 2)
    assert {(each["before"], each["after"]) for each in story["moves"]} == {("web-2", "web-1")}


@pytest.mark.parametrize(("kind", "units"), [(ShareMember, "partitions"), (StreamsMember, "tasks")])
def test_groups_of_other_types(
    cluster: Cluster, explain: Explain, kind: type[MovedMember], units: str
) -> None:
    group = f"told-{kind.__name__}"
    members = [kind(cluster.bootstrap, group, member_id, TOPIC) for member_id in ("M-1", "M-2")]

    def settle(moved: Sequence[MovedMember]) -> None:
        def is_done() -> bool:
            for each in moved:
                each.beat()
            return moved[0].is_settled()

        until(is_done, 2 * WITHIN_S, "all have their target assignments")

    settle(members[:1])
    settle(members)
    told(explain, group, rf"epoch .*: member \S+ \(127\.0\.0\.1\) joined.* {units} ")
    members[1].leave()
    settle(members[:1])
    told(explain, group, rf"epoch .*: member \S+ \(127\.0\.0\.1\) left.* {units} moved")
    if kind is StreamsMember:
        document = json.loads(explain(group, "--json"))
        story = next(each for each in document["rebalances"] if " left" in each["sentence"])
        units_moved = {each["unit"] for each in story["moves"]}
        assert all(re.fullmatch(r"[01]_[0-3]", unit) for unit in units_moved)


def test_a_storm_names_who_flaps_and_what_to_change(cluster: Cluster, explain: Explain) -> None:
    group = "storm"
    with closing(consumer(cluster, group, "web-1", "classic")) as calm:
        share_out([calm])
        for _ in range(3):
            flapper = consumer(cluster, group, "web-9", "classic")
            share_out([calm, flapper])
            flapper.close()
            share_out([calm])
        lines = told(explain, group, "^storm: 7")
    rate = r"( \(\d+ an hour\))?"  # none before a minute
    of_all = rf"storm: 7 rebalances in [\d.]+ s: 4 x joined{rate}, 3 x left{rate}"
    assert re.fullmatch(of_all, lines[0])
    assert lines[1] == 'flapper: "web-9 at 127.0.0.1" caused 6 of 7'
    assert "group.instance.id" in lines[2]


def test_what_is_new_is_shown_as_it_happens(
    cluster: Cluster, tmp_path: Path, explain: Explain
) -> None:
    group, shown = "followed", tmp_path / "shown"
    words = ["explain", group, "--follow", "--json", "--bootstrap-server", cluster.bootstrap]
    with shown.open("wb") as out:
        follower = subprocess.Popen(
            [sys.executable, "-m", "rollcall", *words], stdout=out, cwd=ROOT
        )
    try:
        until(lambda: shown.read_text().count("\n") == 1, WITHIN_S, "the history is shown")
        with closing(consumer(cluster, group, "web-1", "consumer")) as first:
            share_out([first])
            until(lambda: '"stable"' in shown.read_text(), WITHIN_S, "the end is shown")
    finally:
        follower.send_signal(signal.SIGINT)
        code = follower.wait(WITHIN_S)
    assert code in (-signal.SIGINT, 130)
    document, *later = [json.loads(line) for line in shown.read_text().splitlines()]
    stories = [each for each in later if "under_way" not in each]
    assert document["rebalances"] == []
    assert {each["before"] for each in stories} >= {1}


def test_more_of_each_rebalance(cluster: Cluster, explain: Explain) -> None:
    group = "verbose"
    with closing(consumer(cluster, group, "web 1", "classic")) as first:
        share_out([first])
        told(explain, group, r'member "web 1" \(127\.0\.0\.1\) joined')
        shown = explain(group, "--verbose", "--last", "1")
    assert re.search(
        r"1 members; assignor \S+; node \d; ended stable; 0 partitions kept; 0 revoked", shown
    )
    assert re.search(rf'{TOPIC}-3: nobody → "web 1"', shown)
    assert re.search(r'by member "web 1" .*, client "web 1", "confluent-kafka', shown)


@pytest.mark.parametrize("last", ["0", "-1", "1001"])
def test_how_many_to_show(cluster: Cluster, last: str) -> None:
    words = ["explain", "any", "--last", last, "--bootstrap-server", cluster.bootstrap]
    assert cli.main(words) == 2


def test_no_tool_that_lists_configs_meets_the_history(cluster: Cluster) -> None:
    with AdminClient(parse_bootstrap(cluster.bootstrap)) as client:
        resource = m.DescribeConfigsResource(
            resource_type=GROUP, resource_name="any", configuration_keys=None
        )
        (found,) = client.ask(m.DescribeConfigsRequest(resources=(resource,))).results
    assert STORIES not in {each.name for each in found.configs}


def test_a_group_that_nobody_knows(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "nobody", "--bootstrap-server", cluster.bootstrap]) == 1
    assert capsys.readouterr().err.startswith(
        "rollcall: there is no group nobody, and no rebalance"
    )


class KafkaClient(AdminClient):
    """A client of a broker that knows no stories."""

    def ask_at(self, address: Address, message: object) -> SimpleNamespace:
        result = SimpleNamespace(error_code=ErrorCode.none, error_message=None, configs=())
        return SimpleNamespace(results=(result,))

    def brokers(self) -> dict[int, Address]:
        return {1: ("inside.example", 9092)}


def test_who_asks_a_kafka_is_told_of_the_command_for_it() -> None:
    """With the address that was given: the one of the broker's listener may be another."""
    with pytest.raises(ClientError) as raised:
        stories.ask(KafkaClient(parse_bootstrap("kafka.example:19092")), "orders")
    assert str(raised.value) == (
        "this cluster does not remember rebalances: it is no Rollcall;"
        " use `rollcall watch --bootstrap kafka.example:19092`"
    )
