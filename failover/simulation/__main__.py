"""``python -m failover.simulation``: run seeds and print the event log of one that fails.

The only file here that reads a real clock: to report the speed.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from failover.drills.checked import DrillError
from failover.drills.drill import names
from failover.simulation.drills import run_drill
from failover.simulation.faults.table import FAULTS, lines
from failover.simulation.one_seed import run_seed
from failover.simulation.settings import CALM, GroupMix, settings_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from failover.simulation.one_seed import Report

STORY_LINES: Final = 80
"""How many lines of the event log a failure prints: the last ones."""

PROGRESS_S: Final = 10.0

COLLECT_AFTER: Final = (100_000, 50, 100)
"""Thresholds of the garbage collector, high: seeds make few cycles, and are a sixth faster."""

PROGRAM: Final = f"python -m {__package__}"


class Kind(NamedTuple):
    """What kind of seeds: their groups, and whether these get configs of KIP-345's future works."""

    groups: GroupMix
    fleet: bool


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; return 0 when no seed found a violation."""
    asked = _parser().parse_args(arguments)
    if asked.list:
        print("\n".join(names()))
        return 0
    if asked.faults:
        print("\n".join(lines()))
        return 0
    if asked.drill:
        return _drill(asked.drill, asked.seed or 0)
    if asked.idle:
        return _idle(asked.idle)
    if asked.seed is not None:
        return _one(asked.seed, Kind(asked.groups, asked.fleet), asked.about)
    kind = Kind(asked.groups, asked.fleet)
    return _many(range(asked.start, asked.start + asked.seeds), kind, asked.jobs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Simulate clusters under seeded faults and check what clients see.",
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to try")
    parser.add_argument("--from", type=int, default=0, dest="start", help="the first seed")
    parser.add_argument(
        "--groups",
        type=GroupMix,
        choices=list(GroupMix),
        default=GroupMix.ANY,
        help="which groups there are (all: one of each kind; any: each seed has its own)",
    )
    parser.add_argument(
        "--fleet", action="store_true", help="groups have spares and expected instances"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes that try seeds side by side")
    parser.add_argument("--seed", type=int, help="run this seed alone and tell its whole story")
    parser.add_argument("--about", default="", help="of one seed's story: this group alone")
    parser.add_argument("--drill", help="run a drill (with --seed N)")
    parser.add_argument("--list", action="store_true", help="name the drills")
    parser.add_argument("--faults", action="store_true", help="list the classes of faults")
    parser.add_argument("--idle", type=int, help="run so many minutes without faults: the speed")
    return parser


def _run(seed: int, kind: Kind, *, tells: bool = False) -> Report:
    settings = replace(settings_for(seed, kind.groups), fleet=kind.fleet)
    return run_seed(seed, settings, tells=tells)


def _one(seed: int, kind: Kind, about: str) -> int:
    report = _run(seed, kind, tells=True)
    _tell(report, about, None)
    if report.violation is None:
        print(f"seed {seed}: all went well for {report.simulated_ms / 1000:.0f} s")
        return 0
    return 1


def _drill(name: str, seed: int) -> int:
    try:
        result = run_drill(name, seed)
    except DrillError as error:
        print(error, file=sys.stderr)
        return 2
    print(result)
    return 0 if result.passed else 1


def _idle(minutes: int) -> int:
    settings = replace(CALM, faulty_ms=minutes * 60_000)
    began = time.process_time()
    report = run_seed(0, settings)
    spent_s = time.process_time() - began
    simulated = report.simulated_ms / 60_000
    print(
        f"{settings.nodes} nodes, {settings.groups} groups, {settings.members} members:"
        f" {simulated:.0f} cluster-minutes in {spent_s:.1f} s of one core,"
        f" {simulated / spent_s:.0f} cluster-minutes per second"
    )
    return 0


def _many(seeds: range, kind: Kind, jobs: int) -> int:
    began, cpu_began = time.monotonic(), time.process_time()
    told = began
    simulated_ms = events = done = 0
    injected: Counter[str] = Counter()
    for report in _reports(seeds, kind, jobs):
        done += 1
        simulated_ms += report.simulated_ms
        events += report.events
        injected.update(report.injected)
        if report.violation is not None:
            _fail(report, kind)
            return 1
        if time.monotonic() - told > PROGRESS_S:
            told = time.monotonic()
            print(f"{done} seeds, {done / (told - began):.1f} a second", file=sys.stderr)
    spent_s = time.monotonic() - began
    busy_s = time.process_time() - cpu_began if jobs == 1 else spent_s * jobs
    minutes = simulated_ms / 60_000
    print(f"{done} seeds from {seeds.start} on: nothing is broken")
    print(f"{done / spent_s:.1f} seeds/s; {events / spent_s:,.0f} events/s")
    print(
        f"{minutes / 60:.1f} simulated cluster-hours,"
        f" {minutes / busy_s:.0f} cluster-minutes per second of one core"
    )
    print("faults: " + ", ".join(f"{each.name} {injected[each.name]}" for each in FAULTS))
    return 0


def _reports(seeds: range, kind: Kind, jobs: int) -> Iterable[Report]:
    run = partial(_run, kind=kind)
    if jobs == 1:
        gc.set_threshold(*COLLECT_AFTER)
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(jobs, initializer=gc.set_threshold, initargs=COLLECT_AFTER) as pool:
        yield from pool.map(run, seeds, chunksize=4)


def _fail(report: Report, kind: Kind) -> None:
    """Print the violation, the events before it, and how to reproduce it."""
    told = _run(report.seed, kind, tells=True)
    assert report.violation is not None
    _tell(told, report.violation.subject, STORY_LINES)
    print(f"\nseed {report.seed} found: {report.violation.subject}: {report.violation.text}")
    fleet = " --fleet" if kind.fleet else ""
    print(f"repeat: {PROGRAM} --groups {kind.groups}{fleet} --seed {report.seed}")


def _tell(report: Report, about: str, lines: int | None) -> None:
    assert report.story is not None
    story = list(report.story.about(about))
    for line in story[-lines:] if lines else story:
        print(line)


if __name__ == "__main__":
    sys.exit(main())
