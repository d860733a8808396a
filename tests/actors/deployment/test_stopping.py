"""``rollcall up`` and ``drill`` are stopped or killed at any moment, and leave nothing behind.

The moments are drawn from a seed: ``ROLLCALL_STOP_MOMENTS=50`` tries fifty, and
``ROLLCALL_STOP_SEED`` begins elsewhere.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from actors.cluster import processes
from actors.cluster.processes import is_alive
from actors.errors import ExitCode
from bench.interruption import NO_VERDICT
from tests.conftest import rollcall
from tests.waiting import WITHIN_S, patient, until

MOMENTS = int(os.environ.get("ROLLCALL_STOP_MOMENTS", "8"))
SEED = int(os.environ.get("ROLLCALL_STOP_SEED", "0"))
READY_S = patient(90)
END_S = patient(45)
ONE = ("--set", "offsets.topic.num.partitions=1")


@dataclass
class Place:
    """Where a test's commands write: nothing else does, so that all that is left can be found."""

    home: Path

    @property
    def data_dir(self) -> Path:
        return self.home / "data"

    @property
    def environment(self) -> dict[str, str]:
        return {"TMPDIR": str(self.home)}

    def begin(self, *words: str, **settings: str) -> subprocess.Popen[str]:
        """Begin a command as systemd does: in a session and process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "rollcall", *words],
            env={**os.environ, **self.environment, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def up(self, *words: str) -> subprocess.Popen[str]:
        return self.begin("up", "--port", "0", "--data-dir", str(self.data_dir), *ONE, *words)

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return rollcall(*words, **self.environment)

    def processes(self) -> set[processes.Process]:
        """Find what was started here by the one thing that all of it inherits or writes to."""
        roots = processes.with_environment(f"TMPDIR={self.home}")
        roots |= processes.with_output_in(self.home)
        return processes.living(pid for root, _ in roots for pid in processes.descendants(root))

    def files(self) -> list[str]:
        """List what is left of Rays and of the list of clusters, and of a drill's directories."""
        found = [*self.home.glob("rollcall-ray-*"), *self.home.glob("rollcall-[0-9]*/*")]
        found += self.home.glob("rollcall-drill-*")
        found += self.home.glob("rollcall-bench-*")
        return sorted(path.name for path in found)


@pytest.fixture
def place() -> Iterator[Place]:
    home = Path(tempfile.mkdtemp(prefix="rc", dir="/tmp"))  # sockets have short paths
    made = Place(home)
    try:
        yield made
    finally:
        processes.end(made.processes)
        shutil.rmtree(home, ignore_errors=True)


def to_group(process: subprocess.Popen[str], how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, how)


def to_all(process: subprocess.Popen[str], how: signal.Signals) -> None:
    """Send a signal to a process and all that it has started, as to a control group."""
    for pid in processes.descendants(process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, how)


def to_one(process: subprocess.Popen[str], how: signal.Signals) -> None:
    process.send_signal(how)


WAYS: list[tuple[Callable[[subprocess.Popen[str], signal.Signals], None], list[signal.Signals]]] = [
    (to_group, [signal.SIGTERM]),
    (to_group, [signal.SIGINT]),
    (to_group, [signal.SIGHUP]),
    (to_all, [signal.SIGTERM]),
    (to_group, [signal.SIGTERM, signal.SIGTERM]),
    (to_group, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]),
    (to_all, [signal.SIGTERM, signal.SIGINT]),
    (to_one, [signal.SIGKILL]),
    (to_one, [signal.SIGTERM, signal.SIGKILL]),
    (to_group, [signal.SIGKILL]),
]
"""Whom a signal is sent to, and which signals one after the other."""


def wait_s(seconds: float, process: subprocess.Popen[str]) -> None:
    """Let time pass, until the process ends."""
    began = time.monotonic()
    until(
        lambda: time.monotonic() - began > seconds or process.poll() is not None,
        seconds + 5,
        "time has passed",
    )


def time_to_ready(place: Place) -> float:
    """Start and stop once without any trouble; return how long a start takes now."""
    began = time.monotonic()
    process = place.up()
    assert process.stdout is not None
    assert process.stdout.readline().startswith("READY ")
    took = time.monotonic() - began
    process.terminate()
    out, err = process.communicate(timeout=END_S)
    traces = place.data_dir / "traces" / "<process>.jsonl"
    assert (process.returncode, out, err) == (0, "", f"rollcall: Traces go to files: {traces}.\n")
    assert place.processes() == set()
    return took


@pytest.mark.timeout(3600)
def test_whatever_moment_it_is_stopped_at_nothing_is_left_behind(place: Place) -> None:
    longest = 1.2 * time_to_ready(place)
    for number in range(SEED, SEED + MOMENTS):
        rng = random.Random(number)
        tell, signals = WAYS[number % len(WAYS)]
        detach = ["--detach"] if rng.random() < 0.25 else []
        moment = rng.uniform(0, longest)
        story = f"moment {number}: {tell.__name__} {signals} after {moment:.2f} s {detach}"
        process = place.up(*detach)
        wait_s(moment, process)
        for again, how in enumerate(signals):
            if again:
                wait_s(rng.choice([0, 0.05, 0.5, 2]), process)
            tell(process, how)
        out, err = process.communicate(timeout=END_S)
        print(story, process.returncode, out, err)  # noqa: T201 - to be read when one fails
        assert "Traceback" not in err or is_pythons_own(err), (story, err)
        is_killed = signal.SIGKILL in signals
        is_ready = bool(detach) and out.startswith("READY")
        if is_killed or is_ready:
            cope(place, rng, story, runs=is_ready)
        else:
            # One that has not yet taken the signals dies of them.
            assert process.returncode in {0, 1, -signals[0]}, story
        until(lambda: not place.processes(), WITHIN_S, f"{story}: all processes are gone")
        assert place.files() == [], story
    assert time_to_ready(place) > 0, "and it starts as ever"


def is_pythons_own(err: str) -> bool:
    """Say whether Ctrl-C came while the interpreter was reading modules, before our first line."""
    return err.rstrip().endswith("KeyboardInterrupt") and "in entry" not in err


def cope(place: Place, rng: random.Random, story: str, *, runs: bool) -> None:
    """Go on with whichever command comes first; then take everything down.

    ``runs``: the cluster was READY before the signal, and goes on without the command.
    """
    where = ("--data-dir", place.data_dir)
    words = rng.choice([(), ("status",), ("up", "--detach", "--port", "0", *ONE)])
    if words:
        said = place.run(*words, *where)
        assert "Traceback" not in said.stderr, (story, said.stderr)
        assert "Several" not in said.stderr, (story, said.stderr)
        if words[0] == "up" and runs:
            assert said.returncode == ExitCode.BAD_INPUT, story
            assert "is in use by a running cluster" in said.stderr, story
        elif words[0] == "up":
            assert (said.returncode, said.stdout[:6]) == (0, "READY "), (story, said.stderr)
    down = place.run("down", *where)
    assert down.returncode in {ExitCode.OK, ExitCode.NO_CLUSTER}, (story, down.stderr)
    assert place.processes() == set(), f"{story}: down has returned"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_drill_that_is_stopped_stops_its_cluster(place: Place, how: signal.Signals) -> None:
    process = place.begin("drill", "kill-leader", "--own", "--members", "20")
    seen: set[processes.Process] = set()

    def is_far_enough() -> bool:
        seen.update(place.processes())
        return len(seen) > 6

    until(is_far_enough, END_S, "the drill's cluster is being started")
    process.send_signal(how)
    _, err = process.communicate(timeout=END_S)

    def is_gone() -> bool:
        # A process that ends has no environment and no files a moment before it is gone.
        return not place.processes() and not any(map(is_alive, seen))

    until(is_gone, END_S, "all processes are gone")
    if how is not signal.SIGKILL:
        assert process.returncode == NO_VERDICT
        assert err == f"rollcall: The drill was stopped by {how.name}.\n"
        assert place.files() == []


def begin_and_kill(place: Place, name: str) -> None:
    """Start a detached cluster, kill one process of its Ray, and wait for its end."""
    process = place.up("--detach")
    out, err = process.communicate(timeout=READY_S)
    assert out.startswith("READY "), err
    (pid,) = (pid for pid, _ in place.processes() if command(pid).endswith(f"/{name}"))
    os.kill(pid, signal.SIGKILL)
    until(lambda: pid not in dict(place.processes()), WITHIN_S, f"{name} is dead")


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines on standard error that tell no progress."""
    lines = done.stderr.splitlines()
    return [line for line in lines if not line.startswith("stopping the cluster of ")]


def test_down_stops_a_cluster_whose_control_store_is_dead(place: Place) -> None:
    begin_and_kill(place, "gcs_server")
    down = place.run("down", "--data-dir", place.data_dir)
    assert (down.returncode, said(down)) == (0, [])
    assert place.processes() == set()
    assert place.files() == []


def test_down_removes_a_cluster_of_which_one_process_is_dead(place: Place) -> None:
    begin_and_kill(place, "raylet")
    down = place.run("down", "--data-dir", place.data_dir)
    assert down.returncode == 0, down.stderr
    (sentence,) = said(down)
    assert "had been killed. Its remains are removed" in sentence
    assert place.processes() == set()
    assert place.files() == []


def command(pid: int) -> str:
    """Return the program of a process."""
    with suppress(OSError):
        words = (processes.PROC / str(pid) / "cmdline").read_text(errors="replace")
        return words.split("\0", 1)[0]
    return ""
