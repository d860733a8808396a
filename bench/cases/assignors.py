"""``rollcall bench assignors``: our assignors and Kafka's on the same groups, in one run.

Only the assignor is timed: ours from the arrays of the group, with the subscriptions already
interned to classes, Kafka's from its own maps, as in its JMH benchmark. Both are warm. A group that
owns partitions owns those that Kafka's assignor computed (ours, when Kafka is left out), and Kafka
gets the members in the order of their ids, so that both break ties alike. The rows "end to end" are
described in :mod:`bench.cases.assignor_worker`.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.cases.assignor_cases import ABOUT_SHAPES, MODES, SHAPES, group, owning, without_last
from bench.cases.assignor_peer import AssignorPeer
from bench.cases.assignor_worker import WORKER_MODES, time_worker
from bench.report.rounds import BenchRow, Figures
from bench.report.tables import OURS, PEER, as_json
from bench.servers.kafka_jars import NoJavaError
from bench.servers.server import StartError
from failover.columns import aligned
from protocol.assignors.registry import BUILT_IN, assign, assignor
from protocol.assignors.spec import NOBODY, GroupAssignment, GroupSpec, Int32s, SharedAssignment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CALLS_MIN: Final = 20
OK, FAILURE = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingOptions:
    """What is timed, and how many times."""

    assignor: str
    calls: int
    warm_up_ms: int
    worker: bool
    peer: AssignorPeer | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    options = _parser().parse_args(arguments)
    if options.list:
        for shape, about in ABOUT_SHAPES.items():
            print(f"{shape:12} {about}")
        return OK
    try:
        with ExitStack() as running:
            peer = running.enter_context(AssignorPeer()) if options.kafka else None
            asked = TimingOptions(
                assignor=options.assignor,
                calls=options.calls,
                warm_up_ms=options.warm_up_ms,
                worker=not options.no_worker,
                peer=peer,
            )
            rows = []
            for shape in options.shapes:
                spec = group(shape, options.members, options.topics, options.partitions)
                rows += time_shape(shape, options.modes, spec, asked)
    except (StartError, NoJavaError, OSError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return FAILURE
    print(_table(rows))
    if options.json:
        options.json.write_text(as_json("assignors", rows))
    return OK


def time_shape(
    shape: str, modes: Sequence[str], spec: GroupSpec, asked: TimingOptions
) -> list[BenchRow]:
    """Time one shape of subscriptions in each mode."""
    rows = []
    for mode in modes:
        case = _case(spec, mode, asked)
        rows += _time_case(f"{shape} {mode}", case, asked)
        if asked.worker and mode in WORKER_MODES:
            rows += _time_whole(f"{shape} {mode}, end to end", mode, (spec, case), asked)
    return rows


def _owner(assignment: GroupAssignment | SharedAssignment) -> Int32s:
    assert isinstance(assignment, GroupAssignment)
    return assignment.owner


def _case(spec: GroupSpec, mode: str, asked: TimingOptions) -> GroupSpec:
    """Give the group the partitions that the mode requires."""
    if mode == "full":
        return spec
    find: Callable[[GroupSpec], Int32s] = lambda each: _owner(assign(asked.assignor, each))  # noqa: E731
    if asked.peer:
        peer = asked.peer
        find = lambda each: peer.assign(asked.assignor, each)  # noqa: E731
    if mode == "join":
        return owning(spec, find(without_last(spec)))
    owned = owning(spec, find(spec))
    return without_last(owned) if mode == "leave" else owned


def _time_case(case: str, spec: GroupSpec, asked: TimingOptions) -> list[BenchRow]:
    run = assignor(asked.assignor).assign
    owner = _owner(run(spec))
    gc.collect()
    gc.disable()
    try:
        took_ms = [_time(lambda: run(spec)) for _ in range(asked.calls + 5)][5:]
    finally:
        gc.enable()
    rows = [_row(case, OURS, spec, owner, took_ms)]
    if asked.peer:
        theirs, took_ms = asked.peer.timed(
            "assign", asked.assignor, spec, calls=asked.calls, warm_up_ms=asked.warm_up_ms
        )
        rows.append(_row(case, PEER, spec, theirs, took_ms))
    return rows


def _time_whole(
    name: str, mode: str, specs: tuple[GroupSpec, GroupSpec], asked: TimingOptions
) -> list[BenchRow]:
    """Time the round trip through a worker process; ``specs``: the group before and after."""
    spec, case = specs
    ours = time_worker(spec, asked.assignor, mode, asked.calls)
    rows = [_ms_row(name, OURS, ours)]
    if asked.peer:
        _, theirs = asked.peer.timed(
            "build", asked.assignor, case, calls=asked.calls, warm_up_ms=asked.warm_up_ms
        )
        rows.append(_ms_row(name, PEER, theirs))
    return rows


def _ms_row(case: str, server: str, took_ms: list[float]) -> BenchRow:
    return BenchRow(case=case, server=server, rounds=tuple({"assign_ms": ms} for ms in took_ms))


def _time(run: Callable[[], object]) -> float:
    began_at = time.perf_counter()
    run()
    return (time.perf_counter() - began_at) * 1000


def _row(case: str, server: str, spec: GroupSpec, owner: Int32s, took_ms: list[float]) -> BenchRow:
    found = quality(spec, owner)
    return BenchRow(
        case=case, server=server, rounds=tuple({"assign_ms": ms, **found} for ms in took_ms)
    )


def quality(spec: GroupSpec, owner: Int32s) -> Figures:
    """Measure balance and stickiness.

    ``spread`` is the largest difference between the loads of two members with the same
    subscriptions, ``sum_of_squares`` is over all loads, ``moved`` counts partitions that move from
    one member to another.
    """
    load = np.bincount(owner[owner != NOBODY], minlength=spec.member_count)
    spread = max(
        (int(np.ptp(load[spec.member_class == each])) for each in np.unique(spec.member_class)),
        default=0,
    )
    moved = np.count_nonzero((owner != spec.previous_owner) & (spec.previous_owner != NOBODY))
    given = np.count_nonzero((owner != spec.previous_owner) & (spec.previous_owner == NOBODY))
    return {
        "spread": spread,
        "sum_of_squares": int(np.sum(load.astype(np.int64) ** 2)),
        "moved": int(moved),
        "given": int(given),
    }


def _table(rows: Sequence[BenchRow]) -> str:
    lines = [["case", "rollcall ms", "kafka ms", "times faster", "spread", "squares", "moved"]]
    for case in dict.fromkeys(row.case for row in rows):
        found = {row.server: row.median() for row in rows if row.case == case}
        ours, theirs = found[OURS], found.get(PEER)
        line = [case, f"{ours['assign_ms']:.3f}"]
        line += [f"{theirs['assign_ms']:.2f}"] if theirs else ["-"]
        line += [f"{theirs['assign_ms'] / ours['assign_ms']:.1f}"] if theirs else ["-"]
        for name in ("spread", "sum_of_squares", "moved"):
            both = [f"{each[name]:.0f}" for each in (ours, theirs) if each and name in each]
            line.append(" / ".join(both))
        lines.append(line)
    return aligned(lines, right=range(2, len(lines[0])))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rollcall bench assignors", description="Time assignors on groups of many shapes."
    )
    parser.add_argument("--kafka", action="store_true", help="run Kafka's assignors beside ours")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every call to FILE")
    parser.add_argument("--list", action="store_true", help="name the shapes of subscriptions")
    parser.add_argument(
        "--no-worker", action="store_true", help="leave out the way through a worker process"
    )
    parser.add_argument("--assignor", choices=BUILT_IN, default="uniform", help="which (uniform)")
    parser.add_argument("--members", type=_above(1), default=1000, metavar="N", help="(1000)")
    parser.add_argument("--topics", type=_above(5), default=1000, metavar="N", help="(1000)")
    parser.add_argument(
        "--partitions", type=_above(1), default=50, metavar="N", help="of a topic, on average (50)"
    )
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), help="(all)")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES), help="(all)")
    parser.add_argument(
        "--calls", type=_above(CALLS_MIN), default=40, metavar="N", help="timed calls (40)"
    )
    parser.add_argument(
        "--warm-up-ms", type=_above(0), default=3000, metavar="MS",
        help="how long Kafka's assignor runs before it is timed (3000)",
    )  # fmt: skip
    return parser


def _above(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return value

    parse.__name__ = "int"  # argparse prints its own error when the text is no number
    return parse


if __name__ == "__main__":
    sys.exit(main())
