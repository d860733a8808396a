"""Commands whose output nobody reads any more, or that are stopped while they start."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from actors.cli import main as command_line
from tests.waiting import patient

SCENARIO = """
about = "three members"
duration = "5s"
topics.t.partitions = 3
[[groups]]
name = "a"
topics = ["t"]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "s.toml"
    path.write_text(SCENARIO)
    return path


def rollcall(*words: str) -> list[str]:
    return [sys.executable, "-m", "rollcall", *words]


def environment() -> dict[str, str]:
    """Return this environment, but for what makes Python write every line at once."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def unread(*words: str) -> tuple[int, str]:
    """Run a command whose output nobody reads; return its exit code and what else it said."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            rollcall(*words), stdout=write, stderr=subprocess.PIPE, text=True, check=False,
            env=environment(), timeout=patient(60),
        )  # fmt: skip
    finally:
        os.close(write)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("--help", 1),
        ("completion bash", 1),
        ("rehearse --list", 2),
        ("drill --list", 2),
        ("bench --list", 2),
        ("check --help", 2),
    ],
)
def test_a_command_ends_quietly_when_nobody_reads_it(words: str, code: int) -> None:
    """As in ``rollcall rehearse --list | head -1``: 1, or 2 where 1 is a verdict."""
    assert unread(*words.split()) == (code, "")


def test_a_rehearsal_ends_quietly_when_nobody_reads_it(scenario: Path) -> None:
    assert unread("rehearse", "--simulate", str(scenario)) == (2, "")


def test_output_that_cannot_be_written_is_told_in_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            rollcall("rehearse", "--list"), stdout=full, stderr=subprocess.PIPE, text=True,
            check=False, env=environment(), timeout=patient(60),
        )  # fmt: skip
    sentence = "rollcall: The output cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (2, sentence)


def test_a_rehearsal_that_is_stopped_while_it_reads_its_scenario_says_so(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    os.mkfifo(path)
    with (
        subprocess.Popen(
            rollcall("rehearse", str(path)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running,
        path.open("w"),  # it has opened the file, and waits for its text
    ):
        running.send_signal(signal.SIGINT)
        told = running.communicate(timeout=patient(60))
    assert told == ("", "rollcall: The rehearsal was stopped by SIGINT.\n")
    assert running.returncode == 2


@pytest.mark.parametrize(
    ("command", "what"),
    [("rehearse", "rehearsal"), ("drill", "drill"), ("bench", "benchmark"), ("check", "check")],
)
def test_a_command_that_is_stopped_before_it_is_imported_says_so(
    monkeypatch, capsys, command: str, what: str
) -> None:
    monkeypatch.setattr(
        command_line, "_instrument", lambda _command: os.kill(os.getpid(), signal.SIGINT)
    )
    assert command_line.main([command]) == 2
    assert capsys.readouterr().err == f"rollcall: The {what} was stopped by SIGINT.\n"
