"""The exit codes of commands: one table, which the manual and the errors follow."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import errors
from actors.cli.main import main
from actors.errors import MEANINGS, CommandError, ExitCode, error_with
from bench.servers.processes import free_port
from tests.actors.coordinator.coordinators import Cluster, running

OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"
HEADING = "| Exit code | Meaning |\n"
ROW = re.compile(r"^\| (\d+) \| (.+) \|$", re.MULTILINE)
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, CommandError) and kind is not CommandError
]


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with running() as cluster:
        yield cluster


def test_every_code_has_a_meaning_and_a_row_in_the_manual() -> None:
    assert list(MEANINGS) == list(ExitCode)
    table = OPERATIONS.read_text().partition(HEADING)[2].partition("\n\n")[0]
    rows = {int(code): meaning for code, meaning in ROW.findall(table)}
    assert rows == {int(code): meaning for code, meaning in MEANINGS.items()}


def test_the_help_lists_the_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert all(f"\n  {code.value}  {meaning}\n" in said for code, meaning in MEANINGS.items())


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_a_child_process_keeps_its_exit_code(kind: type[CommandError]) -> None:
    found = error_with(kind.exit_code, "a sentence")
    assert found.exit_code == kind.exit_code
    assert str(found) == "a sentence"


@pytest.mark.parametrize("option", ["--live", "--ready"])
def test_a_coordinator_that_serves_passes_both_probes(
    option: str, three: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for address in three.bootstrap.split(","):
        assert main(["status", option, address]) == ExitCode.OK
    assert capsys.readouterr() == ("", "")


def test_a_coordinator_that_sees_no_leader_is_live_and_not_ready(
    three: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = three.coordinators[0]
    assert asked._pump is not None
    leaders = asked._pump.host.view.leaders
    address = three.bootstrap.split(",")[0]
    before = leaders.pop(1)
    try:
        asked._pump.host.view.described.clear()
        assert main(["status", "--live", address]) == ExitCode.OK
        assert main(["status", "--ready", address]) == ExitCode.NO_LEADER
    finally:
        leaders[1] = before
        asked._pump.host.view.described.clear()
    assert capsys.readouterr().err == f"rollcall: {address} sees no leader of partition 1.\n"


@pytest.mark.parametrize("option", ["--live", "--ready"])
def test_nobody_there_fails_both_probes(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", option, f"127.0.0.1:{free_port()}"]) == ExitCode.NO_CLUSTER
    assert "cannot be reached" in capsys.readouterr().err


def test_a_coordinator_that_hangs_is_not_live(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kernel accepts its connections, but nobody answers them."""
    monkeypatch.setattr("actors.cli.probe.ANSWER_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        address = f"127.0.0.1:{hangs.getsockname()[1]}"
        assert main(["status", "--live", address]) == ExitCode.NO_CLUSTER
    assert capsys.readouterr().err == f"rollcall: {address} did not answer in time.\n"


@pytest.mark.parametrize("text", ["", "here", "a:1,b:2", "127.0.0.1"])
def test_a_probe_needs_one_address(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--ready", text]) == ExitCode.BAD_INPUT
    assert "give HOST:PORT" in capsys.readouterr().err
