"""``rollcall groups``: events over the wire, and offsets of all groups."""

import json
import re
from collections.abc import Iterator

import pytest

from actors.cli import admin
from actors.cli.client import AdminClient, parse_bootstrap
from tests.actors.cli.commands import Run, Said, member, rollcall, set_offsets
from tests.actors.coordinator.coordinators import Cluster, running
from tests.waiting import WITHIN_S, until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running(2) as cluster:
        yield cluster


@pytest.fixture
def run(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``rollcall`` with these words against the cluster."""
    where = ("--bootstrap-server", cluster.bootstrap)
    return lambda *words: rollcall(capsys, words[0], *where, *words[1:])


@pytest.fixture
def topic(run: Run, request: pytest.FixtureRequest) -> str:
    name = f"{request.function.__name__[5:60]}-topic"
    words = ("--topic", name, "--partitions", "2", "--if-not-exists")
    assert run("topics", "--create", *words).code == 0
    return name


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    return f"{request.function.__name__[5:60]}-group"


def test_events_tell_who_left_and_why(cluster: Cluster, run: Run, topic: str, group: str) -> None:
    """KIP-800: the reasons are shown, beside the rebalances; asked over the wire alone."""
    with member(cluster, group, topic, **{"group.instance.id": "a"}):
        words = ("--group", group, "--instance-id", "a", "--reason", "moved house")
        assert run("members", "--remove", *words).code == 0
        said = until(lambda: both_rebalances(run, group), WITHIN_S, "both rebalances are told")
    begin, *table = said.lines
    assert re.fullmatch(
        rf"group {group}: 2 rebalances, 2 events of members;"
        r" the list begins at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: nothing from before is kept",
        begin,
    )
    rows = Said(0, "\n".join(table), "").rows
    joined, left = (row for row in rows if row["EVENT"] != "rebalance")
    assert (joined["EVENT"], left["EVENT"]) == ("joined", "left")
    assert (left["GROUP-INSTANCE-ID"], left["REASON"]) == ("a", "moved house")
    assert (joined["CLIENT-ID"], joined["HOST"]) == ("cli-test", "/127.0.0.1")
    assert left["TIME"].endswith("+00:00")
    first, last = (row for row in rows if row["EVENT"] == "rebalance")
    assert (first["GENERATION"], first["TRIGGER"]) == ("1", "joined")
    assert (first["#PARTITIONS"], first["#MOVED"], first["#NEW"]) == ("2", "0", "2")
    assert first["TOOK-MS"].isdecimal()
    assert (last["TRIGGER"], last["REASON"]) == ("left", "moved house")


def both_rebalances(run: Run, group: str) -> Said | None:
    """Return the events once both rebalances are told: that is a moment later."""
    said = run("groups", "--describe", "--group", group, "--events")
    is_told = sum(" rebalance " in line for line in said.lines) == 2
    return said if is_told else None


def test_events_say_where_their_list_begins_though_it_is_empty(
    cluster: Cluster, run: Run, topic: str, group: str
) -> None:
    set_offsets(cluster, group, topic, 1)
    words = ("groups", "--describe", "--group", group, "--events")
    (line,) = run(*words).lines
    assert line.startswith(
        f"group {group}: no rebalances, no events of members; the list begins at "
    )
    assert line.endswith("Z: nothing from before is kept")
    (begin,) = json.loads(run(*words, "--json").lines[0])
    assert (begin["event"], begin["group"]) == ("list-begins", group)
    assert begin["reason"] in line


def test_events_of_a_group_that_nobody_knows(run: Run) -> None:
    said = run("groups", "--describe", "--group", "nobody", "--events")
    assert said.code == 1
    assert said.err.startswith("rollcall: there is no group nobody, and no event of one")


def test_the_offsets_of_all_groups_are_reset(
    cluster: Cluster, run: Run, topic: str, group: str
) -> None:
    """``--reset-offsets --all-groups``: a group with members is reported, the others are reset."""
    names = [f"{group}-1", f"{group}-2"]
    for name in names:
        set_offsets(cluster, name, topic, 5)
    words = ("--reset-offsets", "--all-groups", "--topic", topic, "--to-earliest")

    def reset(*more: str) -> tuple[Said, set[tuple[str, str, str]]]:
        said = run("groups", *words, *more)
        rows = {
            (row["GROUP"], row["PARTITION"], row["NEW-OFFSET"])
            for row in said.rows
            if row["GROUP"] in names
        }
        return said, rows

    with member(cluster, f"{group}-busy", topic):
        said, rows = reset()
        assert rows == {(name, number, "0") for name in names for number in "01"}
        assert said.code == 1
        assert f"group {group}-busy cannot be reset while it has members" in said.err
        assert "nothing is changed" in said.err
        assert committed(cluster, names) == {5}, "a dry run"
        assert reset("--execute")[1] == rows
    assert committed(cluster, names) == {0}


def committed(cluster: Cluster, groups: list[str]) -> set[int]:
    with AdminClient(parse_bootstrap(cluster.bootstrap)) as client:
        return {
            each.offset
            for name in groups
            for each in admin.committed_offsets(client, name).values()
        }
