"""``--json``: every command takes it, and what it prints is JSON, errors too."""

from __future__ import annotations

import argparse
import json
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.cli import admin, balance, discovery, up, upgrade
from actors.cli import main as cli
from actors.cluster import registry
from actors.deployment import actors
from actors.deployment.controller import MovedLeadership
from actors.errors import ExitCode, NoClusterError
from failover.control.balancing import CoordinatorMove
from tests.actors.backup.backups import CLUSTER_ID, committed, write_backup
from tests.actors.coordinator.coordinators import Cluster, running

KAFKA = Path(__file__).parent.parent / "backup" / "kafka-4.3.1"

INSTRUMENTS = frozenset({"bench", "drill", "rehearse", "check"})
"""They write their results to a file: ``--json FILE``."""


def commands(parser: ArgumentParser, name: str = "") -> Iterator[tuple[str, ArgumentParser]]:
    """Return each command that can be run, with its parser."""
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not below:
        yield name, parser
    for action in below:
        for word, found in action.choices.items():
            yield from commands(found, f"{name} {word}".strip())


COMMANDS = dict(commands(cli._parser()))


def test_every_command_takes_it() -> None:
    assert COMMANDS.keys() > INSTRUMENTS
    for name, parser in COMMANDS.items():
        if name not in INSTRUMENTS:
            (action,) = (each for each in parser._actions if "--json" in each.option_strings)
            assert action.nargs == 0, f"{name}: it is a switch"
            assert action.help, name


@pytest.mark.parametrize("name", sorted(INSTRUMENTS))
def test_every_instrument_writes_it_to_a_file(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [name, "--help"] if name != "bench" else [name, "heartbeats", "--help"]
    with pytest.raises(SystemExit):
        cli.main(words)
    assert "--json FILE" in capsys.readouterr().out


# --- what is printed


Ran = tuple[int, Any]


def ran(capsys: pytest.CaptureFixture[str], *words: object) -> Ran:
    """Run a command; return its exit code and the one document that it prints."""
    capsys.readouterr()
    try:
        code = cli.main([*map(str, words), "--json"])
    except SystemExit as end:
        assert isinstance(end.code, int)
        code = end.code
    (line,) = capsys.readouterr().out.splitlines()
    return code, json.loads(line)


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Let commands find a cluster that answers as the test says."""
    found = SimpleNamespace(data_dir="/data", cluster_id="c", owner=None, partitions=2)
    for module in (cli, up, balance, upgrade):
        monkeypatch.setattr(module, "find_cluster", lambda *_, **__: found, raising=False)
        monkeypatch.setattr(module, "call_cluster", lambda _, ask: ask(), raising=False)
    monkeypatch.setattr(discovery, "find_cluster", lambda *_, **__: found)
    monkeypatch.setattr(discovery, "call_cluster", lambda _, ask: ask())
    return found


@pytest.mark.usefixtures("anywhere")
def test_a_drain_says_what_moved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = [MovedLeadership(0, 2), MovedLeadership(1, None)]
    monkeypatch.setattr(actors, "drain", lambda *_, **__: moved)
    code, said = ran(capsys, "drain", "1")
    assert code == ExitCode.FAILURE, "one stays"
    assert [row["to_node"] for row in said["moved"]] == [2, None]
    assert (said["which"], said["is_ended"]) == ("1", False)
    assert cli.main(["drain", "1"]) == ExitCode.FAILURE
    for row, line in zip(said["moved"], capsys.readouterr().out.splitlines(), strict=True):
        assert line.startswith(row["partition"])


@pytest.mark.usefixtures("anywhere")
def test_a_replaced_coordinator(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(actors, "replace_coordinator", lambda *_: "10.0.0.7")
    assert ran(capsys, "replace", "1") == (0, {"node_id": 1, "host": "10.0.0.7"})


def test_a_stopped_cluster(
    anywhere: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "remove_leftovers", list)
    monkeypatch.setattr(up, "_stop", lambda _: None)
    stopped = {"cluster_id": anywhere.cluster_id, "data_dir": anywhere.data_dir}
    assert ran(capsys, "down") == (0, {"stopped": stopped, "removed_remains": []})


@pytest.mark.parametrize("words", [["--dry-run"], []])
@pytest.mark.usefixtures("anywhere")
def test_moves_are_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    plan = [CoordinatorMove(node_id=1, home="a", host="b", reason="it is crowded")]

    def answer(method: str, *_: object, **__: object) -> Any:
        if method == "moves":
            return list(plan), ""
        plan.clear()
        return ""

    monkeypatch.setattr(actors, "ask_controller", answer)
    assert cli.main(["balance", "--json", *words]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["move"] == {"node_id": 1, "home": "a", "host": "b", "reason": "it is crowded"}
    assert lines[0]["said"].startswith("coordinator 1 moves from a to b")
    ends = [] if words else [{"said": "The cluster is balanced.", "move": None}]
    assert lines[1:] == ends


@pytest.mark.usefixtures("anywhere")
def test_levels(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"node_id": 0, "ray_host": "", "host": "h", "version": "1.0"}
    levels = {"finalized": 3, "supported": [1, 3]}
    status = {"coordinators": [{**row, "levels": levels}], "bootstrap": "h:1"}
    monkeypatch.setattr(upgrade, "read_status", lambda _: status)
    code, said = ran(capsys, "upgrade")
    assert (code, said["finalized"], said["newest_supported"], said["is_raised"]) == (
        0,
        3,
        3,
        False,
    )
    (node,) = said["coordinators"]
    assert (node["node"], node["version"]) == (0, "1.0")


def test_the_ready_line() -> None:
    cluster: Any = SimpleNamespace(
        bootstrap="h:1", console="http://h:2", data_dir="/data", cluster_id="c"
    )
    text = up._ready(cluster, as_json=False)
    assert text == "READY bootstrap=h:1 console=http://h:2 data=/data"
    assert json.loads(up._ready(cluster, as_json=True)) == {
        "ready": True,
        "cluster_id": "c",
        "bootstrap": "h:1",
        "console": "http://h:2",
        "data": "/data",
    }


def test_a_script_of_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = ran(capsys, "completion", "bash")
    assert (code, said["shell"]) == (0, "bash")
    assert "rollcall" in said["script"]


def test_backups_and_what_is_made_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backup, data = tmp_path / "b", tmp_path / "data"
    write_backup(backup, {0: [committed("g", 1)]})
    code, said = ran(capsys, "backup", "--verify", backup)
    assert (code, said["cluster_id"], said["backup"]) == (0, CLUSTER_ID, str(backup))
    rows = {row["partition"]: row for row in said["partitions"]}
    assert (rows["partition 0"]["records"], rows["partition 0"]["offset"]) == (1, 100)
    start = f"rollcall up --data-dir {data}"
    made = {"data_dir": str(data), "hosts": [], "start": start}
    assert ran(capsys, "restore", backup, "--data-dir", data) == (0, made)
    code, said = ran(capsys, "recover", data, "--to", tmp_path / "left", "--unsafe")
    assert (code, said["backup"]) == (0, str(tmp_path / "left"))
    assert any("partition 0: from node 0" in line for line in said["found"])
    words = ("import", "--segments", KAFKA, "--to", tmp_path / "i", "--partitions", "2")
    code, said = ran(capsys, *words)
    assert code == 0
    assert {"partition 0", "partition 1"} < {row["partition"] for row in said["partitions"]}


def test_an_export_says_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_backup(tmp_path / "b", {0: [committed("g", 1)]})
    monkeypatch.setattr(admin, "commit_offsets", lambda *_: None)
    words = ("export", tmp_path / "b", "--bootstrap-server", "h:1", "--offsets-only")
    assert ran(capsys, *words) == (0, {"groups": {"g": 1}})


ERRORS = {
    "drain": (["drain", "1", "--data-dir", "/nowhere"], ExitCode.NO_CLUSTER),
    "up": (["up", "--set", "nothing"], ExitCode.BAD_INPUT),
    "the words": (["drain"], ExitCode.BAD_INPUT),
    "no command": (["drained"], ExitCode.BAD_INPUT),
    "nobody there": (
        ["topics", "--list", "--bootstrap-server", "127.0.0.1:1"],
        ExitCode.NO_CLUSTER,
    ),
    "no recovery": (["recover", "/nowhere", "--to", "/b"], ExitCode.BAD_INPUT),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_a_document_too(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing_there(*_: object, **__: object) -> None:
        raise NoClusterError("No cluster is there.")

    monkeypatch.setattr(discovery, "find_cluster", nothing_there)
    words, expected = ERRORS[name]
    code, said = ran(capsys, *words)
    assert code == expected
    assert set(said) == {"error"}
    with suppress(SystemExit):
        code = cli.main(words)
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"rollcall: {said['error']}\n")


# --- over the wire


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running(1) as cluster:
        yield cluster


def test_what_is_done_is_a_row_each(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--bootstrap-server", cluster.bootstrap)
    words = ("--topic", "t", "--topic", "bad/name")
    code, (good, bad) = ran(capsys, "topics", "--create", *words, *where)
    assert (code, good) == (1, {"topic": "t", "status": "created"})
    assert "INVALID_TOPIC" in bad["status"]
    words = ("--entity-type", "groups", "--entity-name", "g")
    config = ("--add-config", "consumer.session.timeout.ms=50000")
    altered = [{"group": "g", "status": "altered"}]
    assert ran(capsys, "configs", "--alter", *words, *config, *where) == (0, altered)
    gone = ran(capsys, "groups", "--delete", "--group", "nobody", *where)
    assert gone[0] == 1
    assert gone[1][0]["group"] == "nobody"
    removed = ("members", "--remove", "--group", "g", "--member-id", "m")
    code, (row,) = ran(capsys, *removed, *where)
    assert (code, row["consumer_id"]) == (1, "m")
    assert "UNKNOWN_MEMBER_ID" in row["status"]
    for probe in ("--live", "--ready"):
        code, said = ran(capsys, "status", probe, cluster.bootstrap)
        assert (code, said[probe.removeprefix("--")]) == (0, True)
