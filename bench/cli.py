"""``rollcall bench NAME [--kafka]``: one benchmark: a table, a page, and JSON for tools."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from actors.clock import wall_ms
from actors.telemetry.run_traces import TracedRun, trace_run
from bench.cases.commits import bench_commits, bench_replicated_commits
from bench.cases.console_cost import LIMIT as CONSOLE_LIMIT
from bench.cases.console_cost import bench_console_cost
from bench.cases.failover import bench_failover
from bench.cases.group_types import PEER_TYPE_CONFIGS, TYPE_CONFIGS, long_sessions
from bench.cases.heartbeats import bench_heartbeats
from bench.cases.joins import bench_joins
from bench.cases.memory import bench_memory
from bench.cases.modern_groups import bench_heartbeats_of, bench_joins_of
from bench.cases.noisy_neighbour import bench_noisy_neighbour, partition_count
from bench.cases.reload import bench_reload
from bench.cases.telemetry import LIMIT as TELEMETRY_LIMIT
from bench.cases.telemetry import bench_telemetry
from bench.cases.watch import LIMIT as WATCH_LIMIT
from bench.cases.watch import bench_watch
from bench.client.pipelines import AnswerError
from bench.interruption import Interrupted, interruptible, quiet_if_unread
from bench.load.joining import JoinError
from bench.load.modern_members import MemberError
from bench.pages.measured import add_report_option, write_bench_report
from bench.report.progress import note
from bench.report.rounds import BenchRow, BenchSettings
from bench.report.tables import as_json, table
from bench.result_files import result_path, write_aside
from bench.servers.rollcall import ONE_COORDINATOR, running_rollcall
from bench.servers.server import Server, StartError
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.report.limits import CheckedLimit, FigureLimit

OK, BAD_INPUT = 0, 2
NOT_GIVEN: Final = argparse.SUPPRESS
ROUNDS: Final = frozenset({"rounds"})
TIMED: Final = ROUNDS | {"seconds"}


@dataclass(frozen=True, slots=True)
class Bench:
    """A benchmark of running servers, which are started side by side and measured.

    ``options`` are the fields of :class:`BenchSettings` that it uses.
    """

    about: str
    run: Callable[[Sequence[Server], BenchSettings], list[BenchRow]]
    settings: Mapping[str, str]
    options: frozenset[str] = TIMED
    has_peer: bool = True
    peer_settings: Mapping[str, str] = field(default_factory=dict)
    partitions: Callable[[BenchSettings], int] = lambda _: 0
    """How many partitions it creates, if they are many: then one server runs after the other."""
    limits: Sequence[FigureLimit] = ()


@dataclass(frozen=True, slots=True)
class ClusterBench:
    """A benchmark that starts and kills its own clusters, one after the other."""

    about: str
    run: Callable[[BenchSettings, bool], list[BenchRow]]
    options: frozenset[str]
    has_peer: bool = True
    limits: Sequence[FigureLimit] = ()


def _bench_of(  # noqa: PLR0913 - a row
    group_type: str,
    about: str,
    run: Callable[[str, Sequence[Server], BenchSettings], list[BenchRow]],
    both: Mapping[str, str] | None = None,
    *,
    ours: Mapping[str, str] | None = None,
    options: frozenset[str] = TIMED,
) -> Bench:
    """Return the row of a benchmark of groups of one type; ``both``: configs of both servers."""
    configs = {**TYPE_CONFIGS[group_type], **(both or {})}
    return Bench(
        about,
        partial(run, group_type),
        {**ONE_COORDINATOR, **configs, **(ours or {})},
        options,
        peer_settings={**configs, **PEER_TYPE_CONFIGS[group_type]},
    )


def _storm_of(group_type: str, about: str) -> Bench:
    """Return the row of a storm of groups of one type."""
    options = TIMED | {"partitions"}
    row = _bench_of(group_type, about, bench_noisy_neighbour, ours=WATCHED, options=options)
    return replace(row, partitions=partial(partition_count, group_type))


MODERN_TYPES: Final = tuple(TYPE_CONFIGS)
WATCHED: Final[Mapping[str, str]] = {"event.loop.watch.interval.ms": "1"}
THREE_COORDINATORS: Final[Mapping[str, str]] = {"group.initial.rebalance.delay.ms": "0"}
STEADY_LEADERS: Final[Mapping[str, str]] = {
    **THREE_COORDINATORS, "replica.election.timeout.ms": "6000",
    "auto.leader.rebalance.enable": "false",
}  # fmt: skip
"""For members that do not look for another coordinator.

Leases are as short as by default, so that members keep them renewed. With longer ones a partition
would be idle, and the questions of an administrator would seem to cost what renewing does.
"""

BENCHES: Final[Mapping[str, Bench | ClusterBench]] = {
    "heartbeats": Bench(
        "steady heartbeats of 1,000 members in a closed loop and of 5,000 once a second",
        bench_heartbeats, ONE_COORDINATOR,
    ),
    "commits": Bench(
        "OffsetCommit, one partition per request", bench_commits, ONE_COORDINATOR,
    ),
    "joins": Bench(
        "1,000 and 5,000 members join one group at once; all static members restart at once",
        bench_joins, ONE_COORDINATOR, ROUNDS,
    ),
    "memory": Bench(
        "resident memory that 10,000 members add to three coordinators",
        bench_memory, THREE_COORDINATORS, frozenset(), has_peer=False,
    ),
    **{
        f"{each}-heartbeats": _bench_of(
            each, f"the same heartbeats for {each} groups", bench_heartbeats_of,
            long_sessions(each),
        )
        for each in MODERN_TYPES
    },
    "consumer-joins": _bench_of(
        "consumer", "100 consumer groups of 100, and one of 5,000, join at once and settle",
        bench_joins_of, options=ROUNDS,
    ),
    "share-joins": _bench_of(
        "share", "100 share groups of 100, and one of 1,000, join at once and settle",
        bench_joins_of, options=ROUNDS,
    ),
    "streams-joins": _bench_of(
        "streams", "the same for streams groups", bench_joins_of,
        {"group.streams.initial.rebalance.delay.ms": "0"}, options=ROUNDS,
    ),
    "storm": _storm_of(
        "consumer",
        "heartbeats of a group beside a noisy one that constantly changes its subscriptions",
    ),
    "share-storm": _storm_of("share", "the same beside a noisy share group"),
    "streams-storm": _storm_of(
        "streams", "the same beside a noisy streams group, whose members come and go",
    ),
    "replicated-commits": ClusterBench(
        "OffsetCommit on one partition with three replicas, acknowledged by a majority",
        bench_replicated_commits, TIMED,
    ),
    "failover": ClusterBench(
        "kill -9 of a leader: time until its members, and a prober, get responses again",
        bench_failover, ROUNDS | {"members", "records", "kills"},
    ),
    "console-cost": Bench(
        "CPU time of three coordinators with five pages of the console closed, and open",
        bench_console_cost, STEADY_LEADERS, has_peer=False, limits=[CONSOLE_LIMIT],
    ),
    "telemetry": ClusterBench(
        "steady heartbeats with telemetry off, with traces in files, and with a backend that hangs",
        bench_telemetry, TIMED, has_peer=False, limits=[TELEMETRY_LIMIT],
    ),
    "reload": ClusterBench(
        "kill -9 of everything: how fast a partition's offsets are loaded from disk",
        bench_reload, ROUNDS | {"records"},
    ),
    "watch": ClusterBench(
        "`rollcall watch` beside a Kafka: a million offsets, and 10,000 members twice",
        bench_watch, frozenset({"members", "records"}), has_peer=False, limits=[WATCH_LIMIT],
    ),
}  # fmt: skip


def of_type(name: str | None, group_type: str | None) -> str | None:
    """Return the name of a benchmark for groups of a type; there may be no such benchmark."""
    if name is None or group_type is None or OWN_TYPES.get(name) == group_type:
        return name
    return f"{group_type}-{name}"


OWN_TYPES: Final[Mapping[str, str]] = {
    "heartbeats": "classic",
    "joins": "classic",
    "storm": "consumer",
}
"""The types of groups that are measured where none is asked for."""


@dataclass(frozen=True, slots=True)
class StandaloneBench:
    """A benchmark with its own options; ``module`` of this package has its ``main``."""

    about: str
    module: str


STANDALONE: Final[Mapping[str, StandaloneBench]] = {
    "all": StandaloneBench(
        "all headline benchmarks, with results in one dated file", ".all_benchmarks"
    ),
    "assignors": StandaloneBench(
        "assignors on groups with different subscriptions", ".cases.assignors"
    ),
    "histories": StandaloneBench(
        "the checks of a large history with planted faults: their time and memory",
        ".cases.histories",
    ),
    "hostile": StandaloneBench(
        "hostile traffic on its own cluster, and its effect on well-behaved clients",
        ".cases.hostile",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in STANDALONE:
        run: Callable[[Sequence[str]], int] = import_module(
            STANDALONE[words[0]].module, __package__
        ).main
        return run(words[1:])
    asked = _parser().parse_args(words)
    asked.name = of_type(asked.name, asked.type)
    if asked.list or asked.name is None:
        for name, bench in BENCHES.items():
            print(f"{name:20} {bench.about}")
        for name, standalone in STANDALONE.items():
            print(f"{name:20} {standalone.about}; see {name} --help")
        return OK if asked.list else BAD_INPUT
    if why := _refusal(asked):
        print(f"rollcall: {why}", file=sys.stderr)
        return BAD_INPUT
    began_ms, is_done = wall_ms(), None
    try:
        began_s = time.monotonic()
        with interruptible():
            rows = _run(BENCHES[asked.name], asked)
        is_done = True
        limits = [limit.checked(rows) for limit in BENCHES[asked.name].limits]
        with quiet_if_unread():
            print(table(rows), *(limit.line() for limit in limits), sep="\n", flush=True)
        _write(asked, rows, limits, began_s)
    except (StartError, JoinError, MemberError, AnswerError, KafkaError, OSError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return BAD_INPUT
    except Interrupted as stop:
        print(f"rollcall: The benchmark was {stop}.", file=sys.stderr)
        return stop.exit_code
    finally:
        trace_run(
            TracedRun(
                kind="bench",
                name=asked.name,
                started_ms=began_ms,
                ended_ms=wall_ms(),
                is_clean=is_done,
            )
        )
    return OK


def _write(
    asked: argparse.Namespace, rows: list[BenchRow], limits: Sequence[CheckedLimit], began_s: float
) -> None:
    """Write the files that are asked for; raises OSError."""
    if asked.json:
        write_aside(asked.json, as_json(asked.name, rows, limits))
    broken = [f"{limit.line()}." for limit in limits if limit.beyond]
    about = BENCHES[asked.name].about
    write_bench_report(asked.report, asked.name, about, rows, began_s, broken=broken)


def _refusal(asked: argparse.Namespace) -> str:
    """Return why the arguments are invalid; "" if they are valid."""
    bench = BENCHES.get(asked.name)
    if bench is None:
        return f"There is no benchmark {asked.name!r}: see --list."
    if asked.kafka and not bench.has_peer:
        return f"{asked.name} cannot be compared with Kafka: omit --kafka."
    if asked.kafka and (why := _missing_for_kafka()):
        return why
    if unused := _given(asked).keys() - bench.options:
        flags = ", ".join(f"--{name}" for name in sorted(unused))
        return f"{asked.name} does not use {flags}: omit {'it' if len(unused) == 1 else 'them'}."
    return ""


def _missing_for_kafka() -> str:
    """Return why Kafka cannot be started; "" if it can be. Its jars are there afterwards."""
    from bench.servers.kafka import need_kafka

    try:
        need_kafka()
    except StartError as error:
        return str(error)
    return ""


def _given(asked: argparse.Namespace) -> dict[str, Any]:
    names = [field.name for field in fields(BenchSettings)]
    return {name: getattr(asked, name) for name in names if hasattr(asked, name)}


def _run(bench: Bench | ClusterBench, asked: argparse.Namespace) -> list[BenchRow]:
    setting = BenchSettings(**_given(asked))
    if isinstance(bench, ClusterBench):
        return bench.run(setting, asked.kafka)
    partitions = bench.partitions(setting)
    starts = {"Rollcall": partial(running_rollcall, bench.settings)}
    if asked.kafka:
        from bench.servers.kafka import brokers_for, running_kafka

        brokers = brokers_for(partitions)
        starts["Apache Kafka"] = partial(running_kafka, bench.peer_settings, brokers)
    rows = []
    for names in [[name] for name in starts] if partitions else [[*starts]]:
        with ExitStack() as running:
            servers = []
            for name in names:
                note(f"Starting {name} ...")
                servers.append(running.enter_context(starts[name]()))
            note("Warming up ...")
            rows += bench.run(servers, setting)
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rollcall bench", description="Run one benchmark.")
    parser.add_argument("name", nargs="?", help="the benchmark; see --list")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    parser.add_argument(
        "--type", choices=("classic", *MODERN_TYPES),
        help="the type of the groups, of heartbeats, joins and storm: the same as TYPE-NAME",
    )  # fmt: skip
    parser.add_argument("--kafka", action="store_true", help="also measure a real Apache Kafka")
    parser.add_argument(
        "--json", type=result_path, metavar="FILE", help="write every round to FILE"
    )
    add_report_option(parser)
    parser.add_argument(
        "--rounds",
        type=_positive(int),
        default=NOT_GIVEN,
        help="rounds for each server (default: 5)",
    )
    parser.add_argument(
        "--seconds",
        type=_positive(float),
        default=NOT_GIVEN,
        help="length of a timed round (default: 5)",
    )
    parser.add_argument(
        "--members",
        type=_positive(int),
        default=NOT_GIVEN,
        metavar="N",
        help="failover: members that heartbeat during a kill (default: 1000); watch: members that"
        " join classic and consumer groups each (default: 10000)",
    )
    parser.add_argument(
        "--records", type=_positive(int), default=NOT_GIVEN, metavar="N",
        help="failover, reload, watch: committed offsets (default: 1000000)",
    )  # fmt: skip
    parser.add_argument(
        "--kills", type=_positive(int), default=NOT_GIVEN, metavar="N",
        help="failover: kills that the prober measures (default: 5)",
    )  # fmt: skip
    parser.add_argument(
        "--partitions", type=_positive(int), default=NOT_GIVEN, metavar="N",
        help="storm: partitions of each of the 1,000 topics (default: 50), or tasks of each of the"
        " 50 subtopologies (default: 1000); Kafka gets as many brokers as may open so many files",
    )  # fmt: skip
    return parser


def _positive(number: Callable[[str], float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = number(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not greater than 0")
        return value

    parse.__name__ = number.__name__  # argparse prints its own error when the text is no number
    return parse


if __name__ == "__main__":
    sys.exit(main())
