"""The README, followed line by line in an empty environment: what it shows is what happens.

Every line of its blocks is run, but for those in ``LEFT_OUT``; what stands behind ``#`` is what is
printed, with ``...`` for what differs from one run to the next.

``make setup`` is left out, as it takes minutes and the network. Continuous integration runs it in a
bare clone before every test: it runs ``make test``, whose first step is the same ``.setup`` of the
Makefile, and this test uses the ``.venv`` that it made. If the README's ports are taken, the
cluster uses others (``rollcall up --port``).
"""

import argparse
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from actors.cli.main import _parser
from actors.cluster import processes
from bench.check import _parser as check_parser
from bench.cli import _parser as bench_parser
from bench.drills import _parser as drill_parser
from bench.rehearse import _parser as rehearse_parser
from tests.clients import wire
from tests.conftest import STOP_S
from tests.waiting import patient, until

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
USAGE = re.compile(r"`(rollcall [^`]+)`")
PORT = 9092
PORTS = (PORT, 19092, 29092, 39092)
COORDINATORS = 3
LINE_S = patient(100)

LEFT_OUT = {
    "make setup": "make test does the same, see above",
    "make demo": "it takes three minutes, Java and Spark; tests/bench runs a smaller one",
    "make test": "this is it",
    "rollcall drill kill-leader": "run with twenty members below",
    "python -m failover.simulation --seeds 100": "run with one seed below",
}
"""Lines that are not run as they stand, and why."""

INSTEAD = {
    "rollcall drill kill-leader": "rollcall drill kill-leader --members 20",
    "python -m failover.simulation --seeds 100": "python -m failover.simulation --seeds 1",
}


@dataclass(frozen=True)
class Line:
    """A line of a block (or a whole program), and what is shown beside it."""

    language: str
    text: str
    shown: str


def lines() -> Iterator[Line]:
    for language, block in BLOCK.findall(README):
        if language == "python":
            shown = [line.partition("  # ")[2] for line in block.splitlines()]
            yield Line(language, block, "\n".join(filter(None, shown)).strip())
        elif not block.startswith("   any Kafka client"):  # the picture
            for line in block.strip().splitlines():
                text, _, shown = line.partition("  # ")
                yield Line(language, text.strip(), shown.strip())


def pattern(shown: str) -> re.Pattern[str]:
    """Read what is shown: ``...`` is anything, blanks are any number of blanks."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in shown.split("...")]
    return re.compile(r"[\s\S]*".join(parts))


@dataclass
class Shell:
    """An empty environment: a home of its own, nothing on the path but the system and .venv."""

    home: Path
    begun: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.home / ".venv").symlink_to(Path(sys.prefix))

    def begin(self, line: str) -> subprocess.Popen[str]:
        activate = "source .venv/bin/activate"
        assert activate in {each.text for each in lines()}, "a user has to know it"
        process = subprocess.Popen(
            ["/bin/bash", "-c", f"{activate} && exec {line}"],
            cwd=self.home,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.begun.append(process)
        return process

    def run(self, line: str) -> str:
        process = self.begin(line)
        out, err = process.communicate(timeout=LINE_S)
        assert process.returncode == 0, f"{line}: {out}{err}"
        return out

    def close(self) -> None:
        for process in self.begun:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_S)
            for pid in processes.descendants(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                stream.close()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    made.close()


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.mark.timeout(600)
def test_the_readme_can_be_followed_line_by_line(shell: Shell) -> None:
    port = next(port for port in PORTS if all(is_free(port + each) for each in range(COORDINATORS)))
    bootstrap = f"127.0.0.1:{port}"
    done = set()
    for line in lines():
        done.add(line.text)
        command = INSTEAD.get(line.text, line.text)
        if line.text in LEFT_OUT and command == line.text:
            continue
        if line.text.startswith("source "):
            continue  # before each command, see above
        if line.language == "python":
            program = shell.home / "client.py"
            program.write_text(line.text.replace(str(PORT), str(port)))
            printed = shell.run("python client.py")
            generation = wire.generation_of(bootstrap, "orders")
            assert shell.run("python client.py") == printed, "again: the same partitions"
            assert wire.generation_of(bootstrap, "orders") == generation, "and no rebalance"
        elif line.text == "rollcall up":
            process = shell.begin(line.text + (f" --port {port}" if port != PORT else ""))
            assert process.stdout is not None
            printed = process.stdout.readline()
        else:
            printed = shell.run(command)
        if command == line.text and line.text != "rollcall drill --list":
            shown = line.shown.replace(str(PORT), str(port))
            assert pattern(shown).match(printed), f"{line.text}: {printed}"
    assert set(LEFT_OUT) <= done, "nothing is left out that is not there"
    (up,) = (each for each in shell.begun if each.poll() is None)
    up.send_signal(signal.SIGINT)
    until(lambda: up.poll() is not None, STOP_S, "Ctrl-C ends it")
    assert up.returncode == 0


def test_make_test_sets_up_what_make_setup_does() -> None:
    rules = re.findall(r"^(\w+):(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    needs = {name: after.split() for name, after in rules}
    assert needs["setup"] == [".setup"]
    assert ".setup" in needs["test"]
    assert "exec make test" in (ROOT / ".ci" / "run").read_text()


def usages() -> list[str]:
    table = README[README.index("## The commands") : README.index("## Where to read next")]
    return USAGE.findall(table)


def options_of(command: str) -> set[str]:
    if command == "drill":
        return set(drill_parser()._option_string_actions)
    if command == "check":
        return set(check_parser()._option_string_actions)
    if command == "rehearse":
        return set(rehearse_parser()._option_string_actions)
    if command == "bench":
        return set(bench_parser()._option_string_actions)
    (subparsers,) = (
        each for each in _parser()._actions if isinstance(each, argparse._SubParsersAction)
    )
    return set(subparsers.choices[command]._option_string_actions)


@pytest.mark.parametrize("usage", usages())
def test_every_command_and_flag_of_the_table_exists(usage: str) -> None:
    words = usage.replace("\\|", "|")
    commands = words.split()[1].split("|")
    flags = set(re.findall(r"--[a-z-]+", words))
    for command in commands:
        assert flags <= options_of(command), f"{command}: {flags - options_of(command)}"


def test_the_configs_command_of_the_readme_is_taken() -> None:
    (line,) = (text for text in usages() if text.startswith("rollcall configs --"))
    assert _parser().parse_args(shlex.split(line)[1:]).all
