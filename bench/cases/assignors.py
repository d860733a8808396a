"""``rollcall bench assignors``: our assignors and Kafka's on the same groups, in one run.

Only the assignor is timed: ours from the arrays of the group, with the subscriptions already
interned to classes, Kafka's from its own maps, as in its JMH benchmark. Both are warm. A group that
owns partitions owns those that Kafka's assignor computed (ours, when Kafka is left out), and Kafka
gets the members in the order of their ids, so that both break ties alike. The rows "end to end" are
described in :mod:`bench.cases.assignor_worker`; only consumer groups have them.

``rollcall bench assignors --type share`` and ``--type streams`` time the assignors of these groups.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from bench.cases.assignor_cases import CONSUMER
from bench.cases.assignor_kind import AssignorKind, Given, Spec
from bench.cases.assignor_peer import AssignorPeer
from bench.cases.assignor_share import SHARE
from bench.cases.assignor_streams import STREAMS
from bench.cases.assignor_worker import WORKER_MODES, time_worker
from bench.pages.measured import add_report_option, write_bench_report
from bench.report.progress import note
from bench.report.rounds import BenchRow, Figures
from bench.report.tables import OURS, PEER, as_json
from bench.result_files import result_path, write_aside
from bench.servers.kafka import need_kafka
from bench.servers.kafka_jars import NoJavaError
from bench.servers.server import StartError
from failover.columns import aligned
from protocol.assignors.registry import BUILT_IN_OF, assignor
from protocol.assignors.spec import GroupSpec

KINDS: Final[Mapping[str, AssignorKind[Any, Any]]] = {
    "consumer": CONSUMER,
    "share": SHARE,
    "streams": STREAMS,
}
MODES: Final = ("full", "join", "leave", "unchanged")
CALLS_MIN: Final = 20
TURNS: Final = 4
"""How often ours and Kafka's take turns in one case."""

OK, BAD_INPUT = 0, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingOptions:
    """What is timed, and how many times; ``sizes``: members, topics, and partitions of a topic."""

    assignor: str
    sizes: tuple[int, int, int]
    modes: Sequence[str]
    calls: int
    warm_up_ms: int
    worker: bool
    peer: AssignorPeer | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    options = _parser().parse_args(arguments)
    kind = KINDS[options.type]
    if options.list:
        for shape, about in kind.shapes.items():
            print(f"{shape:12} {about}")
        return OK
    name = options.assignor or BUILT_IN_OF[options.type][0]
    if why := _refusal(kind, options.type, name, options.shapes or ()):
        print(f"rollcall: {why}", file=sys.stderr)
        return BAD_INPUT
    try:
        if options.kafka:
            need_kafka()
    except StartError as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return BAD_INPUT
    try:
        with ExitStack() as running:
            peer = running.enter_context(AssignorPeer()) if options.kafka else None
            topics, partitions = (
                options.topics or kind.topics,
                options.partitions or kind.partitions,
            )
            asked = TimingOptions(
                assignor=name,
                sizes=(options.members, topics, partitions),
                modes=options.modes,
                calls=options.calls,
                warm_up_ms=options.warm_up_ms,
                worker=not options.no_worker,
                peer=peer,
            )
            rows, began_s = [], time.monotonic()
            for shape in options.shapes or kind.shapes:
                rows += time_shape(kind, shape, asked)
    except (StartError, NoJavaError, OSError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return BAD_INPUT
    print(_table(rows), flush=True)
    try:
        if options.json:
            write_aside(options.json, as_json("assignors", rows))
        about = f"{name} on {options.type} groups of many shapes"
        write_bench_report(options.report, "assignors", about, rows, began_s)
    except OSError as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return BAD_INPUT
    return OK


def _refusal(
    kind: AssignorKind[Any, Any], group_type: str, name: str, shapes: Sequence[str]
) -> str:
    """Return why the arguments are invalid; "" if they are valid."""
    if name not in BUILT_IN_OF[group_type]:
        known = ", ".join(BUILT_IN_OF[group_type])
        return f"There is no assignor {name!r} of {group_type} groups: choose from {known}."
    if unknown := [shape for shape in shapes if shape not in kind.shapes]:
        known = ", ".join(kind.shapes)
        return f"There is no shape {unknown[0]!r} of {group_type} groups: choose from {known}."
    return ""


def time_shape(kind: AssignorKind[Spec, Given], shape: str, asked: TimingOptions) -> list[BenchRow]:
    """Time one shape of groups in each mode."""
    note(f"{shape}: a group is made ...")
    spec = kind.group(shape, *asked.sizes)
    rows = []
    for mode in asked.modes:
        note(f"{shape} {mode} ...")
        case = case_of(kind, spec, mode, asked.assignor, asked.peer)
        rows += _time_case(kind, f"{shape} {mode}", case, asked)
        if asked.worker and kind.has_worker and mode in WORKER_MODES:
            assert isinstance(spec, GroupSpec) and isinstance(case, GroupSpec)
            whole = f"{shape} {mode}, end to end"
            note(f"{whole} ...")
            rows += _time_whole(whole, mode, (spec, case), asked)
    return rows


def case_of(
    kind: AssignorKind[Spec, Given], spec: Spec, mode: str, name: str, peer: AssignorPeer | None
) -> Spec:
    """Give the group what the mode requires that it had before; ``name``: of the assignor."""
    if mode == "full":
        return spec

    def find(each: Spec) -> Given:
        if peer:
            return kind.from_kafka(peer.assign(name, kind.to_kafka(each)))
        return kind.run(name, each)

    if mode == "join":
        return kind.owning(spec, find(kind.without_last(spec)))
    owned = kind.owning(spec, find(spec))
    return kind.without_last(owned) if mode == "leave" else owned


def _time_case(
    kind: AssignorKind[Spec, Given], case: str, spec: Spec, asked: TimingOptions
) -> list[BenchRow]:
    """Time our assignor and Kafka's in turns."""
    run = assignor(asked.assignor).assign
    ours, theirs = kind.run(asked.assignor, spec), None
    our_ms: list[float] = []
    their_ms: list[float] = []
    calls = -(-asked.calls // TURNS)
    for turn in range(TURNS):
        our_ms += _time_calls(lambda: run(spec), calls)
        if asked.peer:
            warm_up_ms = asked.warm_up_ms // (10 if turn else 1)
            told, took_ms = asked.peer.timed(
                "assign", asked.assignor, kind.to_kafka(spec), calls=calls, warm_up_ms=warm_up_ms
            )
            their_ms += took_ms
            theirs = kind.from_kafka(told)
    rows = [_row(case, OURS, kind.quality(spec, ours), our_ms)]
    if theirs is not None:
        rows.append(_row(case, PEER, kind.quality(spec, theirs), their_ms))
    return rows


def _time_calls(run: Callable[[], object], calls: int) -> list[float]:
    gc.collect()
    gc.disable()
    try:
        return [_time(run) for _ in range(calls + 5)][5:]
    finally:
        gc.enable()


def _time_whole(
    name: str, mode: str, specs: tuple[GroupSpec, GroupSpec], asked: TimingOptions
) -> list[BenchRow]:
    """Time the round trip through a worker process; ``specs``: the group before and after."""
    spec, case = specs
    ours = time_worker(spec, asked.assignor, mode, asked.calls)
    rows = [_row(name, OURS, {}, ours)]
    if asked.peer:
        _, theirs = asked.peer.timed(
            "build", asked.assignor, CONSUMER.to_kafka(case),
            calls=asked.calls, warm_up_ms=asked.warm_up_ms,
        )  # fmt: skip
        rows.append(_row(name, PEER, {}, theirs))
    return rows


def _time(run: Callable[[], object]) -> float:
    began_at = time.perf_counter()
    run()
    return (time.perf_counter() - began_at) * 1000


def _row(case: str, server: str, found: Figures, took_ms: list[float]) -> BenchRow:
    return BenchRow(
        case=case, server=server, rounds=tuple({"assign_ms": ms, **found} for ms in took_ms)
    )


def _table(rows: Sequence[BenchRow]) -> str:
    judged = list(dict.fromkeys(name for row in rows for name in row.rounds[0]))[1:]
    lines = [
        ["case", "rollcall ms", "kafka ms", "times faster", *(_words(each) for each in judged)]
    ]
    for case in dict.fromkeys(row.case for row in rows):
        found = {row.server: row.median() for row in rows if row.case == case}
        ours, theirs = found[OURS], found.get(PEER)
        line = [case, f"{ours['assign_ms']:.3f}"]
        line += [f"{theirs['assign_ms']:.2f}"] if theirs else ["-"]
        line += [f"{theirs['assign_ms'] / ours['assign_ms']:.1f}"] if theirs else ["-"]
        for name in judged:
            both = [f"{each[name]:.0f}" for each in (ours, theirs) if each and name in each]
            line.append(" / ".join(both))
        lines.append(line)
    return aligned(lines, right=range(2, len(lines[0])))


def _words(figure: str) -> str:
    return figure.replace("_", " ")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rollcall bench assignors", description="Time assignors on groups of many shapes."
    )
    parser.add_argument("--kafka", action="store_true", help="run Kafka's assignors beside ours")
    parser.add_argument("--json", type=result_path, metavar="FILE", help="write every call to FILE")
    add_report_option(parser)
    parser.add_argument("--list", action="store_true", help="name the shapes of groups")
    parser.add_argument(
        "--no-worker", action="store_true", help="leave out the way through a worker process"
    )
    parser.add_argument(
        "--type", choices=KINDS, default="consumer", help="the type of the groups (consumer)"
    )
    parser.add_argument("--assignor", metavar="NAME", help="which (the first of the type)")
    parser.add_argument("--members", type=_above(1), default=1000, metavar="N", help="(1000)")
    parser.add_argument(
        "--topics", type=_above(5), metavar="N", help="or subtopologies (1000; streams: 50)"
    )
    parser.add_argument(
        "--partitions", type=_above(1), metavar="N",
        help="of a topic, on average, or tasks of a subtopology (50; streams: 1000)",
    )  # fmt: skip
    parser.add_argument("--shapes", nargs="+", metavar="NAME", help="see --list (all)")
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
