"""``rollcall bench all [--kafka]``: run every headline benchmark, and write one dated file.

Each part runs the command that its entry in the file names, in its own process, with sizes such
that all parts together take about 40 minutes on two cores. The file is written after each part, so
an interrupted run can be continued (``--resume``), and a single part can be repeated (``--only``).
A part that misses one of its own limits is kept, with what it missed; a part that fails is not.
``docs/performance.md`` is generated from the newest figures of each part
(:mod:`bench.report.page`).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.checkout_state import commit_of, git
from bench.pages.measured import add_report_option, write_bench_report
from bench.paths import CHECKOUT, PAGE, RESULTS
from bench.report.page import newest, page, read
from bench.report.rounds import BenchRow
from bench.servers import machine
from bench.servers.kafka import need_kafka
from bench.servers.server import StartError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OK, FAILURE, BAD_INPUT = 0, 1, 2
FORMAT: Final = 1
PART_SECONDS_MAX: Final = 900
"""In addition to the time that the part itself is asked to take."""

HOSTILE: Final = "hostile"
HOSTILE_FRAMES, HOSTILE_MINUTES = 300_000, 2.0
MAIN_BRANCHES: Final = ("main", "origin/main")
UNCOMMITTED: Final = "The tree had uncommitted changes."
UNMERGED: Final = "The commit was not on the main branch: it may have got another id since."
MOVED: Final = "The tree changed to another commit during the part."


@dataclass(frozen=True, slots=True)
class BenchPart:
    """One part: the benchmark with its sizes, and whether Apache Kafka is also measured."""

    words: tuple[str, ...]
    has_peer: bool = True


def _part(words: str, *, has_peer: bool = True) -> BenchPart:
    return BenchPart(tuple(words.split()), has_peer)


PARTS: Final[Mapping[str, BenchPart]] = {
    "heartbeats": _part("heartbeats --rounds 2 --seconds 4"),
    "commits": _part("commits --rounds 3 --seconds 4"),
    "replicated-commits": _part("replicated-commits --rounds 2 --seconds 4"),
    "joins": _part("joins --rounds 3"),
    "consumer-heartbeats": _part("consumer-heartbeats --rounds 2 --seconds 4"),
    "share-heartbeats": _part("heartbeats --type share --rounds 2 --seconds 4"),
    "streams-heartbeats": _part("heartbeats --type streams --rounds 2 --seconds 4"),
    "consumer-joins": _part("consumer-joins --rounds 2"),
    "share-joins": _part("joins --type share --rounds 2"),
    "storm": _part("storm --rounds 1 --seconds 15"),
    "share-storm": _part("storm --type share --rounds 1 --seconds 15"),
    "streams-storm": _part("storm --type streams --rounds 1 --seconds 15"),
    "failover": _part("failover --rounds 1 --kills 2 --records 200000"),
    "reload": _part("reload --rounds 2 --records 500000"),
    "memory": _part("memory", has_peer=False),
    "telemetry": _part("telemetry --rounds 25 --seconds 1", has_peer=False),
    "console-cost": _part("console-cost --rounds 9 --seconds 10", has_peer=False),
    "watch": _part("watch", has_peer=False),
    "assignors": _part("assignors --calls 20 --warm-up-ms 1500"),
    "share-assignors": _part(
        "assignors --type share --modes full join leave --calls 20 --warm-up-ms 1500"
    ),
    "streams-assignors": _part(
        "assignors --type streams --modes full join leave --calls 20 --warm-up-ms 1500"
    ),
    HOSTILE: _part(HOSTILE, has_peer=False),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested parts; return the exit code."""
    asked = _parser().parse_args(arguments)
    names = asked.only or list(PARTS)
    if unknown := [name for name in names if name not in PARTS]:
        known = ", ".join(PARTS)
        print(f"rollcall: There is no part {unknown[0]!r}: choose from {known}.", file=sys.stderr)
        return BAD_INPUT
    try:
        if asked.kafka:
            need_kafka()
        return _run_all(names, asked)
    except StartError as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return BAD_INPUT


def _run_all(names: Sequence[str], asked: argparse.Namespace) -> int:
    """Run these parts, one after the other, and write what they measured."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    into = asked.into or RESULTS / f"{today}.json"
    results = read(into) if into.exists() else _empty(today)
    failed, missed = [], []
    began_s = time.monotonic()
    for name in names:
        commit, caveats = _commit()
        words = _words(name, asked)
        before = results["parts"].get(name)
        if asked.resume and before is not None and not caveats and before["commit"] == commit:
            print(f"{name}: already measured")
            continue
        print(f"{name}: rollcall bench {' '.join(words)}", flush=True)
        measured = _run(words, PART_SECONDS_MAX + 60 * asked.minutes * (name == HOSTILE))
        if measured is None:
            failed.append(name)
            continue
        if _commit() != (commit, caveats):
            caveats = [*caveats, MOVED]
        part = {"commit": commit, "command": _command(words), **measured}
        results["parts"][name] = {**part, **({"caveats": caveats} if caveats else {})}
        missed += [name] if measured.get("broken") else []
        _write(into, results)
    made_of = newest(RESULTS)
    if made_of is not None and into.resolve().parent == RESULTS:
        PAGE.write_text(page(made_of))
        print(f"{into.name} and {PAGE.name} are written")
    if asked.report:
        _report(asked.report, results, missed, began_s)
    if missed:
        print(f"rollcall: These parts missed a limit: {', '.join(missed)}.", file=sys.stderr)
    if failed:
        print(f"rollcall: These parts failed: {', '.join(failed)}.", file=sys.stderr)
    return FAILURE if failed or missed else OK


def _report(
    paths: Sequence[Path], results: Mapping[str, Any], missed: Sequence[str], began_s: float
) -> None:
    """Write the medians of all parts of the file as a page; raises OSError."""
    rows = [
        BenchRow(case=f"{name}: {row['case']}", server=row["server"], rounds=tuple(row["rounds"]))
        for name, part in results["parts"].items()
        for row in part["rows"]
        if row["rounds"]
    ]
    broken = [f"{name} missed a limit." for name in missed]
    about = f"all headline benchmarks of {results['date']}"
    write_bench_report(paths, "all", about, rows, began_s, broken=broken)


def _words(name: str, asked: argparse.Namespace) -> list[str]:
    """Return the part's benchmark and its options."""
    part = PARTS[name]
    words = [*part.words, *(["--kafka"] if asked.kafka and part.has_peer else [])]
    if name == HOSTILE:
        words += ["--frames", str(asked.frames), "--minutes", f"{asked.minutes:g}"]
    return words


def _run(words: Sequence[str], seconds_max: float) -> dict[str, Any] | None:
    """Run one part; return its measurements, None when it failed.

    A benchmark that writes its measurements and still fails says in ``broken`` why.
    """
    with tempfile.TemporaryDirectory() as directory:
        told = Path(directory) / "rows.json"
        begun = time.monotonic()
        command = [sys.executable, "-m", f"{__package__}.cli", *words, "--json", str(told)]
        try:
            done = subprocess.run(command, cwd=CHECKOUT, timeout=seconds_max, check=False)
        except subprocess.TimeoutExpired:
            print(f"it took longer than {seconds_max:g} s", file=sys.stderr)
            return None
        if not told.exists():
            return None
        document = json.loads(told.read_text())
        if done.returncode and not document.get("broken"):
            return None
        seconds = round(time.monotonic() - begun)
        remarks = {name: document[name] for name in ("notes", "broken") if document.get(name)}
        return {"seconds": seconds, "rows": document["rows"], **remarks}


def _command(words: Sequence[str]) -> str:
    return " ".join(["rollcall", "bench", *words])


def _write(into: Path, results: dict[str, Any]) -> None:
    """Write the file, with the parts in the order of the table."""
    parts = results["parts"]
    results["parts"] = {name: parts[name] for name in PARTS if name in parts}
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_text(json.dumps(results, indent=1) + "\n")


def _empty(today: str) -> dict[str, Any]:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "format": FORMAT,
        "date": today,
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(memory_bytes / 2**30),
            "system": f"{platform.system()} on {platform.machine()}{_scheduler()}",
            "python": platform.python_version(),
        },
        "parts": {},
    }


def _scheduler() -> str:
    """Return whether Linux divides CPU time between sessions first, which figures depend on."""
    is_on = machine.divides_by_session()
    return "" if is_on is None else f", sched_autogroup {'on' if is_on else 'off'}"


def _commit() -> tuple[str, list[str]]:
    """Return the commit that is measured, and what makes it doubtful.

    A plus says that there are uncommitted changes, other than what benchmarks write. When installed
    from a wheel, return the version.
    """
    if CHECKOUT is None:
        return version("rollcall"), []
    commit, is_changed = commit_of(CHECKOUT, (RESULTS, PAGE))
    in_checkout = partial(git, CHECKOUT)
    branches = [
        name
        for name in MAIN_BRANCHES
        if not in_checkout("rev-parse", "-q", "--verify", name).returncode
    ]
    is_merged = any(
        not in_checkout("merge-base", "--is-ancestor", "HEAD", name).returncode for name in branches
    )
    doubts = {UNCOMMITTED: is_changed, UNMERGED: bool(branches) and not is_merged}
    found = [doubt for doubt, applies in doubts.items() if applies]
    return f"{commit}+" if is_changed else commit, found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rollcall bench all",
        description="Run all headline benchmarks and write one dated file.",
    )
    parser.add_argument("--kafka", action="store_true", help="also measure a real Apache Kafka")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), metavar="NAME,...",
        help=f"only these parts: {', '.join(PARTS)}",
    )  # fmt: skip
    parser.add_argument(
        "--resume", action="store_true", help="skip parts that the file already has for this commit"
    )
    parser.add_argument(
        "--frames", type=int, default=HOSTILE_FRAMES, metavar="N",
        help=f"frames of the part {HOSTILE} (default: {HOSTILE_FRAMES})",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, default=HOSTILE_MINUTES, metavar="N",
        help=f"the most that {HOSTILE} sends for (default: {HOSTILE_MINUTES:g})",
    )  # fmt: skip
    parser.add_argument(
        "--into", type=Path, metavar="FILE",
        help="the file to write or extend (default: bench/results/ with today's date)",
    )  # fmt: skip
    add_report_option(parser)
    return parser
