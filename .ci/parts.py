"""Tests in parts side by side: `.ci/test` runs all but the system tests, `.ci/test-system` those.

System tests need several hosts, or a server that is not ours: Apache Kafka, Jaeger, a collector.

A few lanes take one part after the other; the longest are first. Tests with clusters and clients
mostly wait, so most lanes begin with those. The others only compute, and stand back (``nice``), so
that they do not delay deadlines; not further than that, or they would not get on. A new directory
belongs to the part "others" until it is named here.

Up to five failed tests run once more, alone: a machine that many share can stand still for
longer than any deadline. Those that pass then are named as FLAKY in the last lines, so that people
looks. No failure that chance has found is lost by that: a property test tries the example again
that failed (from Hypothesis's database or, in continuous integration, because all are the same).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = ROOT / ".pytest_cache" / "parts"
AGAIN_MAX: Final = 5
"""How many failed tests run once more; more than that are no accident."""

PATIENCE: Final = "6"
"""How much longer tests wait than alone (``tests/waiting.py``)."""

SLOWEST: Final = 15
LASTFAILED: Final = Path("v/cache/lastfailed")
LAST_FAILED: Final = ("--last-failed", "--last-failed-no-failures", "none")
NO_TESTS: Final = 5
"""pytest's exit code."""


@dataclass
class Part:
    """Tests that one pytest process runs, and what became of them."""

    name: str
    paths: Sequence[str]
    only_computes: bool = False
    code: int = 0
    wall_s: float = 0
    cpu_s: float = 0
    said: str = field(default="", repr=False)

    @property
    def cache(self) -> Path:
        """Where pytest remembers which tests failed."""
        return CACHE / self.name

    def command(self, *more: str) -> list[str]:
        """Return what runs these tests."""
        command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={self.cache}"]
        command += [f"--durations={SLOWEST}", "--durations-min=1"]
        # Deadlines are for tests that hang: one that waits for the processors is to go on.
        if self.only_computes:
            command = ["nice", "-n", "5", *command, "-o", "timeout=1200"]
        else:
            command += ["-o", "timeout=900"]
        return [*command, *self.paths, *(f"--ignore={path}" for path in self.elsewhere()), *more]

    def elsewhere(self) -> list[str]:
        """Return the paths that other parts have within these."""
        named = [path for part in (*WAITING, *COMPUTING, *SYSTEM) for path in part.paths]
        within = tuple(f"{path}/" for path in self.paths)
        return [path for path in named if not self.paths or path.startswith(within)]


WAITING: Final = [
    Part("rehearsals", ["tests/bench/rehearsals"]),
    Part("bench", ["tests/bench"]),
    Part("clients", ["tests/clients"]),
    Part("deployment", ["tests/actors/deployment"]),
    Part("others", []),
    Part("actors", ["tests/actors"]),
    Part("histories", ["tests/bench/histories"]),
]
"""Those of no paths are all that no other part names."""

COMPUTING: Final = [
    Part("simulation", ["tests/simulation"], only_computes=True),
    Part("scenarios", ["tests/bench/scenarios"], only_computes=True),
    Part("protocol", ["tests/protocol"], only_computes=True),
    Part(
        "core",
        ["tests/failover", "tests/storage", "tests/tables", "tests/work"],
        only_computes=True,
    ),
    Part("rules", ["tests/test_docs.py", "tests/test_house_rules.py"], only_computes=True),
]
SYSTEM: Final = [
    Part("hosts", ["tests/hosts"]),
    Part("kafka-suite", ["tests/kafka_suite"]),
    Part("kafka", ["tests/exchange", "tests/clients/tools"]),
    Part("traces", ["tests/clients/telemetry", "tests/clients/test_otlp_backend.py"]),
]
"""The system tests."""

LANES: Final = ("waiting", "waiting", "waiting", "computing")
"""What each lane begins with; then it helps with the rest."""

_running: set[int] = set()
_print: Final = threading.Lock()


def carry_out(part: Part, *more: str) -> None:
    """Run a part, or those of its tests that failed; print what it says when it has ended."""
    began = time.monotonic()
    output = CACHE / f"{part.name}.txt"  # no pipe: a daemon that is left would hold it open
    with output.open("wb") as file:
        process = subprocess.Popen(
            part.command(*more),
            cwd=ROOT,
            env={**os.environ, "ROLLCALL_TESTS_PATIENCE": PATIENCE},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    _running.add(process.pid)
    _, status, used = os.wait4(process.pid, 0)
    part.said = output.read_text(errors="replace")
    _running.discard(process.pid)
    process.returncode = os.waitstatus_to_exitcode(status)
    part.code = 0 if more and process.returncode == NO_TESTS else process.returncode
    part.wall_s += time.monotonic() - began
    part.cpu_s += used.ru_utime + used.ru_stime
    with _print:
        print(f"\n--- {part.name}\n{part.said}", flush=True)


def lane(queues: Sequence[deque[Part]]) -> None:
    """Take parts until none is left."""
    for queue in queues:
        while True:
            try:
                part = queue.popleft()
            except IndexError:
                break
            carry_out(part)


def all_lanes(waiting: Sequence[Part], computing: Sequence[Part]) -> None:
    """Run parts."""
    queues = {"waiting": deque(waiting), "computing": deque(computing)}
    lanes = []
    for first in LANES:
        order = [queues[first], *(queue for name, queue in queues.items() if name != first)]
        lanes.append(threading.Thread(target=lane, args=(order,)))
    for each in lanes:
        each.start()
    for each in lanes:
        each.join()


def failed_tests(part: Part) -> list[str]:
    """Return the tests of a part that pytest has noted as failed."""
    try:
        return re.findall(r'"(.+)": true', (part.cache / LASTFAILED).read_text())
    except OSError:
        return []


def second_chance(parts: Sequence[Part]) -> list[str]:
    """Run up to five failed tests again; return those that pass then."""
    failed = {part.name: failed_tests(part) for part in parts if part.code}
    if sum(map(len, failed.values())) > AGAIN_MAX or any(part.code > 1 for part in parts):
        return []
    for part in parts:
        if failed.get(part.name):
            carry_out(part, *LAST_FAILED)
    return [test for part in parts if not part.code for test in failed.get(part.name, ())]


def section(said: str, title: str) -> str:
    """Return a section of what pytest has said, without its title."""
    found = re.search(rf"^=+ {title} =+\n(.*?)^=", said, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def main(words: Sequence[str]) -> int:
    """Run parts; print the slowest tests of each, what failed, and what each part took."""
    signal.signal(signal.SIGTERM, lambda *_: end())
    signal.signal(signal.SIGHUP, lambda *_: end())
    signal.signal(signal.SIGINT, lambda *_: end())
    are_system = "system" in words
    waiting, computing = (SYSTEM, []) if are_system else (WAITING, COMPUTING)
    shutil.rmtree(CACHE, ignore_errors=True)
    CACHE.mkdir(parents=True)
    backend = build_backend() if are_system else None
    parts = [*waiting, *computing]
    all_lanes(waiting, computing)
    slowest = {part.name: section(part.said, f"slowest {SLOWEST} durations") for part in parts}
    flaky = second_chance(parts)
    if backend is not None:
        backend.terminate()  # whoever needed it has waited for it
        backend.wait()
    for name, said in slowest.items():
        print(f"\nSlowest of {name}:\n{said}", end="")
    took = (f"{part.name} {part.wall_s:.0f} s (CPU {part.cpu_s:.0f} s)" for part in parts)
    print(f"\nParts took: {', '.join(took)}")
    if flaky:
        print("FLAKY: failed once, passed alone:", *flaky, sep="\n  ")
    failed = [part for part in parts if part.code]
    for part in failed:
        print(f"FAILED: {part.name} (exit code {part.code})")
        told = re.findall("^(?:FAILED|ERROR) .*", part.said, re.MULTILINE)
        print(*told, sep="\n")
    return 1 if failed else 0


def build_backend() -> subprocess.Popen[bytes]:
    """Begin to build what tests of traces need: it takes some minutes, if it is not there."""
    command = ["nice", "-n", "5", sys.executable, "-m", "tests.otel_collector"]
    silent = subprocess.DEVNULL
    built = subprocess.Popen(command, cwd=ROOT, stdin=silent, stdout=silent, stderr=silent)
    _running.add(built.pid)
    return built


def end() -> None:
    """End what runs, and this program."""
    for pid in tuple(_running):
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
