"""Progress of long work: a line that changes on a terminal, lines elsewhere, nothing with JSON."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from actors.backup import restoring
from actors.cli.output.progress import WorkProgress
from tests.actors.backup.backups import committed, write_backup
from tests.waiting import WITHIN_S, patient, until

ROOT = Path(__file__).parents[3]
QUICK_S = 0.01


def test_elsewhere_lines_follow_each_other() -> None:
    said = io.StringIO()
    with WorkProgress("copying", stream=said, every_s=QUICK_S) as progress:
        until(lambda: "copying (" in said.getvalue(), WITHIN_S, "the time is shown")
        progress.step(3, 50, "partitions")
        until(lambda: "3 of 50 partitions (" in said.getvalue(), WITHIN_S, "the step is shown")
    assert {line.rpartition(" (")[0] for line in said.getvalue().splitlines()} <= {
        "copying",
        "copying: 3 of 50 partitions",
    }


def test_short_work_and_quiet_work_print_nothing() -> None:
    said = io.StringIO()
    with WorkProgress("copying", stream=said) as progress:
        progress.step(1, 2, "partitions")
    with WorkProgress("copying", is_quiet=True, stream=said, every_s=0.0) as progress:
        progress.step(1, 2, "partitions")
        progress.stop()
    assert said.getvalue() == ""


def test_the_line_ends_with_the_work_that_fails() -> None:
    said = io.StringIO()
    progress = WorkProgress("copying", stream=said, every_s=QUICK_S)
    with pytest.raises(ValueError, match="no"), progress:
        raise ValueError("no")
    assert not progress._thread.is_alive()


def test_what_is_read_can_be_asked_for() -> None:
    said = io.StringIO()
    read = iter(range(10_000))
    with WorkProgress(
        "reading", stream=said, every_s=QUICK_S, state=lambda: f"{next(read)} records"
    ):
        until(lambda: "reading: 1 records" in said.getvalue(), WITHIN_S, "it grows")


def on_terminal(program: str, columns: int = 80) -> str:
    """Run a program whose output and errors are a terminal; return what it drew."""
    outer, inner = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm", "PYTHONPATH": str(ROOT)}
    with closing(os.fdopen(outer, "rb", buffering=0)) as screen:
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=inner, stderr=inner, stdin=inner, env=env
        )
        os.close(inner)
        drawn = b""
        try:
            while piece := screen.read(65_536):
                drawn += piece
        except OSError:
            pass  # the terminal is closed
        assert process.wait(patient(60)) == 0, drawn
    return drawn.decode()


PROGRAM = """
from threading import Event
from actors.cli.output.progress import WorkProgress
drawn = Event()
def state():
    state.calls += 1
    if state.calls == 3:
        drawn.set()
    return f"{state.calls} of 3 partitions"
state.calls = 0
with WorkProgress("copying", state=state, every_s=0.01):
    drawn.wait(60)
print("done")
"""


def test_on_a_terminal_one_line_changes_and_is_gone() -> None:
    drawn = on_terminal(PROGRAM)
    assert "copying: 1 of 3 partitions" in drawn
    assert "copying: 2 of 3 partitions" in drawn
    assert "\r\x1b[2K" in drawn, "the line is drawn over"
    assert drawn.rindex("\x1b[2K") < drawn.index("done"), "it is gone before the result"


REMARK = """
from threading import Event
import sys
from actors.cli.output.progress import WorkProgress
drawn = Event()
def state():
    drawn.set()
    return "far"
with WorkProgress("copying", state=state, every_s=0.01):
    drawn.wait(60)
    while not hasattr(sys.stderr, "rich_proxied_file"):
        drawn.wait(0.01)
    print("a remark", file=sys.stderr)
"""


def test_a_remark_comes_above_the_line() -> None:
    drawn = on_terminal(REMARK)
    assert "a remark\r\n" in drawn
    assert "a remark" in drawn.replace("\x1b", "\r").replace("[2K", "\r").split("\r"), (
        "on a line of its own"
    )


TABLE = """
from actors.cli.output.tables import table
print(table(["GROUP", "CONSUMER-ID", "LAG"], [["orders", "consumer-" * 20, 123456789]]))
"""


@pytest.mark.parametrize("columns", [40, 80])
def test_a_table_fits_its_terminal(columns: int) -> None:
    lines = on_terminal(TABLE, columns).splitlines()
    assert max(map(len, lines)) == columns
    assert lines[1].split()[1].startswith("consumer-")
    assert "..." in lines[1]
    assert lines[1].split()[-1] == "123456789"


def test_a_table_is_printed_in_full_where_there_is_no_terminal() -> None:
    env = {**os.environ, "COLUMNS": "40", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", TABLE], capture_output=True, text=True, check=True, env=env
    )
    assert "consumer-" * 20 in done.stdout


# --- who tells it


def test_a_restoration_tells_each_node(tmp_path: Path) -> None:
    write_backup(tmp_path / "b", {0: [committed("a", 1)]}, partitions=3, replicas=2)
    told: list[tuple[int, int]] = []
    restoration = restoring.prepare(tmp_path / "b", None)
    restoring.restore_here(restoration, tmp_path / "d", lambda *step: told.append(step))
    assert told == [(0, 3), (1, 3), (2, 3)]
