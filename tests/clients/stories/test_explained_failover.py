"""The history of rebalances outlives its coordinator, and a restart of everything."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from actors.cli.client import AdminClient, parse_bootstrap
from actors.cli.stories import ask, ask_node
from protocol.stories.sentence import sentence
from protocol.stories.story import RebalanceStory, StoryOutcome
from tests.clients import servers
from tests.clients.confluent import create_topics, quiet_consumer, wait_until_all_own
from tests.clients.riding import group_on_partition_0
from tests.waiting import SESSION_MS, WITHIN_S, patient, until

TOPIC = "explained"
PARTITIONS = 4
PROTOCOLS = ("classic", "consumer")
BACK_S = patient(90)
GONE = r"member web-2 \(127\.0\.0\.1\) (left|sent no heartbeat)"
"""It leaves, unless it does not find the new coordinator in time; then its session expires."""
GONE_TRIGGERS = {"left", "session-expired"}

Key = tuple[int, int]

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(servers.is_kafka(), reason="Kafka explains no rebalance"),
]


def consumer(bootstrap: str, group: str, client_id: str, protocol: str) -> Consumer:
    return quiet_consumer(
        bootstrap, group, client_id, protocol, TOPIC,
        session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500,
    )  # fmt: skip


def share_out(consumers: Sequence[Consumer]) -> None:
    wait_until_all_own(consumers, PARTITIONS, BACK_S)


def explained(bootstrap: str, group: str) -> dict[str, Any]:
    document: dict[str, Any] = asked(bootstrap, "explain", group, "--last", "50")
    return document


def asked(bootstrap: str, *words: str) -> Any:
    """Ask as an operator does, with nothing but the address of one server."""
    program = Path(sys.executable).parent / "rollcall"
    where = ["--json", "--bootstrap-server", bootstrap]
    done = subprocess.run(
        [program, *words, *where], capture_output=True, check=False, timeout=WITHIN_S
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def listed(bootstrap: str, group: str) -> list[dict[str, Any]]:
    """Return what ``rollcall groups --describe --events`` lists of a group after its begin."""
    begin, *rows = asked(bootstrap, "groups", "--describe", "--events", "--group", group)
    assert begin["event"] == "list-begins"
    assert begin["reason"].startswith("the list begins at ")
    return rows


def what_happened(rows: Sequence[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {(each["event"], each["time"], each["consumer_id"]) for each in rows}


def keys(document: dict[str, Any] | None) -> set[Key]:
    """Return what identifies the stories."""
    stories = [] if document is None else document.get("rebalances", document.get("stories"))
    return {(each["node_id"], each["number"]) for each in stories or ()}


def remembered(bootstrap: str, group: str) -> Sequence[RebalanceStory]:
    """Ask every node, as ``rollcall explain`` does: a process for each ask would take seconds."""
    with AdminClient(parse_bootstrap(bootstrap)) as client:
        return ask(client, group).stories


def wait_until_settled(bootstrap: str, group: str, count: int) -> set[Key]:
    """Wait until so many rebalances are told to their ends."""

    def settled() -> set[Key]:
        stories = remembered(bootstrap, group)
        found = {each.key for each in stories if each.outcome is StoryOutcome.STABLE}
        return found if len(found) >= count else set()

    return until(settled, WITHIN_S, f"{count} rebalances of {group} are explained")


def wait_until_told(bootstrap: str, group: str, pattern: str) -> set[Key]:
    """Wait until a sentence fits; return what identifies the stories."""

    def told() -> set[Key]:
        stories = remembered(bootstrap, group)
        fits = any(re.search(pattern, sentence(each)) for each in stories)
        return {each.key for each in stories} if fits else set()

    return until(told, WITHIN_S, f"a story of {group} like {pattern!r}")


def on_every_node(bootstrap: str, group: str, wanted: set[Key]) -> bool:
    """Whether each node alone remembers these stories, also one that does not lead the group."""
    with AdminClient(parse_bootstrap(bootstrap)) as client:
        asked = [ask_node(client, each, group) for each in client.brokers().values()]
    return len(asked) == 3 and all(wanted <= keys(each) for each in asked)


def test_the_history_outlives_its_leader_and_a_restart(doomed: servers.RollcallServer) -> None:
    bootstrap = doomed.bootstrap
    until(doomed.is_replicated, BACK_S, "every partition is in sync")
    create_topics(bootstrap, [TOPIC], PARTITIONS)
    groups = {each: group_on_partition_0(f"explained-{each}") for each in PROTOCOLS}
    told: dict[str, set[Key]] = {}
    with ExitStack() as stack:
        first, second = {}, {}
        for protocol, group in groups.items():
            first[protocol] = stack.enter_context(
                closing(consumer(bootstrap, group, "web-1", protocol))
            )
            share_out([first[protocol]])
            second[protocol] = consumer(bootstrap, group, "web-2", protocol)
            stack.callback(second[protocol].close)
            share_out([first[protocol], second[protocol]])
            told[group] = wait_until_settled(bootstrap, group, 2)
            until(lambda g=group: on_every_node(bootstrap, g, told[g]), WITHIN_S, "all are told")

        before = {group: listed(bootstrap, group) for group in groups.values()}
        for rows in before.values():
            assert {"joined", "rebalance"} <= {each["event"] for each in rows}

        doomed.kill_coordinator(groups["classic"])

        for protocol, group in groups.items():
            share_out([first[protocol], second[protocol]])
            second[protocol].close()
            share_out([first[protocol]])
            after = wait_until_told(bootstrap, group, GONE)
            assert told[group] < after
            told[group] = after
            rows = listed(bootstrap, group)
            assert what_happened(before[group]) <= what_happened(rows)
            assert {each["trigger"] for each in rows[len(before[group]) :]} & GONE_TRIGGERS
    until(doomed.is_replicated, BACK_S, "the killed coordinator is back")

    doomed.kill_everything()
    doomed.start()

    for group in groups.values():
        assert told[group] <= keys(explained(doomed.bootstrap, group))
        kept = what_happened(listed(doomed.bootstrap, group))
        assert what_happened(before[group]) <= kept
