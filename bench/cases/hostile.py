"""``rollcall bench hostile``: hostile traffic on three coordinators, and its effect on others.

The verdict is good if no process ended, no partition had an election, every request of the
well-behaved clients got the same response as before, their p99 at most doubled, and no coordinator
took more memory than the bound.

Coordinators, clients and the generator share one machine. Three measures separate its effect: the
generator gets only CPU time that no other process wants (SCHED_IDLE), the clients get a CPU before
all others, as if they had a machine of their own, and the generator is paced; the figures show
whether it kept its pace. Before the ``storm`` phase it sends the same frames at the same pace
to sinks (:mod:`bench.load.sink`), while the clients use the idle cluster: the ``neutral`` phase.
The p99 of the storm is compared with that of the calm or the neutral phase, whichever is greater;
both ratios are among the figures. For each phase, the figures include the CPUs that other processes
used, and the share of time that coordinators and clients waited for a CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import socket
import statistics
import sys
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgpack

from actors.deployment.status import partition_rows
from actors.peers.handshake import MAGIC
from actors.serving.admission import raise_open_files_limit
from actors.waiting import poll
from bench.cases.members import stable_groups
from bench.cases.well_behaved import well_behaved_clients
from bench.client.blocking_client import BlockingClient
from bench.interruption import Interrupted, interruptible
from bench.load.hostile_connections import HostileLoad, HostileTargets
from bench.load.hostile_members import TOPIC, TOPIC_PARTITIONS, classic_member, requests_of
from bench.load.hostile_pools import Pool, more_pools
from bench.load.offsets import groups_on
from bench.load.sink import running_sinks
from bench.pages.measured import add_report_option, write_bench_report
from bench.report.progress import note
from bench.report.rounds import BenchRow, latencies
from bench.report.tables import document
from bench.result_files import result_path, write_aside
from bench.servers import machine, processes
from bench.servers.rollcall import running_rollcall
from bench.servers.server import StartError
from failover.columns import aligned
from protocol.client.frames import frame_of
from protocol.wire.apis import API

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection

    from bench.cases.well_behaved import WellBehavedResult
    from bench.servers.machine import CpuUsage
    from bench.servers.server import Server

OK, FAILURE, BAD_INPUT = 0, 1, 2
TOLD_EVERY_S: Final = 10.0
PARTITIONS: Final = 3
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0"}
MIB: Final = 1 << 20
MEMORY_BOUND_MIB: Final = 512
"""The memory that a coordinator may take in addition to the calm phase: 128 MiB for requests, as
much for unread answers, plus the groups, topics and offsets that the storm creates."""

P99_RATIO_MAX: Final = 2.0
CALM, NEUTRAL, STORM = "calm", "neutral", "storm"
METHOD: Final = (
    "The generator used only CPU time that no other process wanted, and the well-behaved clients"
    " got a CPU before all others, if permitted. In the neutral phase the generator sent the same"
    " frames to servers that do nothing, while the well-behaved clients used the idle cluster."
)
MINUTE_P99S: Final = tuple(f"storm_minute_p99_{which}_ms" for which in ("least", "median", "most"))
AUTOGROUP_NOTE: Final = (
    "This Linux divides CPU time between sessions first, so the generator took more than it should:"
    " set kernel.sched_autogroup_enabled to 0 to measure."
)
QUIET_CPUS: Final = 0.1
"""Above this use by other processes, the report says that the machine was not quiet."""

KEPT_PACE: Final = 0.9
CALM_S: Final = 10.0
SETTLE_S: Final = 2.0
STATUS_S: Final = 30.0
PROBE_S: Final = 2.0
FLOODING_MEMBERS: Final = 20
PACE_SHARE: Final = 0.95
"""The frames are sent during this share of the time."""
POLL_S: Final = 0.5
FRAMES_PER_POOL: Final = 250_000
POOL_FRAMES: Final = 6_000
ABOUT: Final = "hostile traffic, and its effect on well-behaved clients"
TALKING_GROUPS: Final = 100
"""On each partition."""


@dataclass(frozen=True, slots=True)
class MeasuredPhase:
    """A period, in ``time.perf_counter()``, and the CPU time used in it."""

    begun: float
    ended: float
    coordinators: CpuUsage
    innocents: CpuUsage

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.ended - self.begun


@dataclass(slots=True)
class Phases:
    """Reads clocks and CPU times at the start and end of each phase."""

    coordinators: Sequence[int]
    innocents: Sequence[int]
    by_name: dict[str, MeasuredPhase] = field(default_factory=dict)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the block."""
        note(f"{name} ...")
        begun = time.perf_counter()
        before = [machine.usage(pids) for pids in (self.coordinators, self.innocents)]
        yield
        ended = time.perf_counter()
        after = [machine.usage(pids) for pids in (self.coordinators, self.innocents)]
        used = (now.since(then) for now, then in zip(after, before, strict=True))
        self.by_name[name] = MeasuredPhase(begun, ended, *used)


@dataclass(slots=True)
class ClusterObservation:
    """The observed state of the cluster."""

    calm_mib: list[float]
    most_mib: list[float]
    gone: bool = False
    elections: int = 0

    def look(self, server: Server) -> None:
        """Read every coordinator's memory, and whether it still runs."""
        for number, pid in enumerate(server.serving):
            mib = processes.resident_bytes([pid]) / MIB
            self.most_mib[number] = max(self.most_mib[number], mib)
            self.gone = self.gone or not mib

    @property
    def added_mib(self) -> float:
        """The most that any coordinator has taken in addition to the calm phase."""
        pairs = zip(self.most_mib, self.calm_mib, strict=True)
        return max(most - calm for most, calm in pairs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    asked = _parser().parse_args(sys.argv[1:] if arguments is None else arguments)
    raise_open_files_limit()
    began_s = time.monotonic()
    try:
        with interruptible(), running_rollcall(SETTINGS) as server:
            row, broken, notes = run(server, asked)
    except Interrupted as stop:
        print(f"rollcall: The benchmark was {stop}.", file=sys.stderr)
        return stop.exit_code
    except (StartError, OSError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return BAD_INPUT
    figures = row.rounds[0]
    print(
        aligned([["figure", "value"], *([n, f"{v:,.3f}"] for n, v in figures.items())], right={1})
    )
    print("\n".join([*notes, *(broken or ["All checks passed."])]))
    try:
        if asked.json:
            told = {**document("hostile", [row]), "notes": notes, "broken": broken}
            write_aside(asked.json, json.dumps(told, indent=2) + "\n")
        write_bench_report(asked.report, "hostile", ABOUT, [row], began_s, broken=broken)
    except OSError as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return BAD_INPUT
    return FAILURE if broken else OK


def run(server: Server, asked: argparse.Namespace) -> tuple[BenchRow, list[str], list[str]]:
    """Run the storm on a running cluster; return figures, violated rules, and notes."""
    before = _epochs(server)
    group_ids = [next(groups_on(number, PARTITIONS, "innocent")) for number in range(PARTITIONS)]
    requests = _floods(server, random.Random(asked.seed))
    floods = list(requests.values())
    pool = Pool(asked.seed, POOL_FRAMES, floods)
    storm_targets = HostileTargets(server.bootstrap, (), list(requests), _talks(server.address))
    per_second = asked.frames / (60 * asked.minutes) / PACE_SHARE
    with (
        running_sinks(len(server.bootstrap)) as sinks,
        well_behaved_clients(server.bootstrap, group_ids) as innocents,
    ):
        _serve_first(innocents.pid)
        time.sleep(SETTLE_S)
        observed = ClusterObservation([0.0] * len(server.serving), [0.0] * len(server.serving))
        observed.look(server)
        observed.calm_mib = list(observed.most_mib)
        phases = Phases(server.serving, [innocents.pid])
        with phases.phase(CALM):
            time.sleep(asked.calm)
        _take_idle_time_only()
        at_sinks = HostileTargets(
            sinks,
            (),
            sinks[: len(floods)],
            dict(zip(sinks, storm_targets.talks.values(), strict=False)),
        )
        with phases.phase(NEUTRAL), _storm(pool, at_sinks, per_second) as neutral:
            deadline = time.perf_counter() + asked.calm
            while time.perf_counter() < deadline:
                neutral.turn()
        time.sleep(SETTLE_S)
        storm_targets = replace(storm_targets, others=_other_ports(server))
        with (
            more_pools(asked.seed + 1, POOL_FRAMES, floods) as pools,
            phases.phase(STORM),
            _storm(pool, storm_targets, per_second) as storm,
        ):
            _run_hostile_load(storm, server, observed, asked, pools)
        result = innocents.stop()
    after = _epochs(server)
    observed.elections = sum(after[key] != epoch for key, epoch in before.items())
    observed.gone = observed.gone or [*map(processes.started, server.serving)].count(None) > 0
    measured = phases.by_name
    figures = _figures(storm, result, observed, measured)
    figures["asked_frames_per_s"] = per_second
    figures["neutral_frames_per_s"] = neutral.count.frames / measured[NEUTRAL].seconds
    row = BenchRow(case="storm of bytes", server=server.name, rounds=(figures,))
    return row, _broken(figures, result, observed), _notes(figures)


@contextlib.contextmanager
def _storm(*arguments: Any) -> Iterator[HostileLoad]:
    """Run a storm, and close all its connections at the end."""
    storm = HostileLoad(*arguments)
    try:
        yield storm
    finally:
        storm.close()


def _serve_first(pid: int) -> None:
    """Give a process a CPU at once before all others (SCHED_FIFO), if this user may.

    The least niceness does not: who runs may go on until the next tick of the clock.
    """
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))


def _take_idle_time_only() -> None:
    """From now on, use only CPU time that no other process wants (SCHED_IDLE)."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _floods(server: Server, draw: random.Random) -> dict[tuple[str, int], list[bytes]]:
    """Create a group on each coordinator; return its members' valid requests by coordinator."""
    floods: dict[tuple[str, int], list[bytes]] = {}
    names = [next(groups_on(number, PARTITIONS, "flooding")) for number in range(PARTITIONS)]
    others = [next(groups_on(number, PARTITIONS, "hostile")) for number in range(PARTITIONS)]
    members = stable_groups(server, names, FLOODING_MEMBERS)
    with BlockingClient(server.address) as connection:
        found = {name: connection.coordinator(name) for name in names}
    for plan, joined in members:
        kernel, other = joined.kernel, others[names.index(plan.group_id)]
        member = classic_member(plan.group_id, kernel.member_id, kernel.generation, plan.topic)
        requests = requests_of(draw, member, other)
        floods.setdefault(found[plan.group_id], []).extend(bytes(frame_of(r)) for r in requests)
    return floods


def _talks(address: tuple[str, int]) -> dict[tuple[str, int], list[str]]:
    """Create the topic of conversations; return the ids of their groups by coordinator."""
    talks: dict[tuple[str, int], list[str]] = {}
    with BlockingClient(address) as connection:
        connection.create_topic(TOPIC, TOPIC_PARTITIONS)
        for number in range(PARTITIONS):
            names = list(islice(groups_on(number, PARTITIONS, "hostile-talk"), TALKING_GROUPS))
            talks.setdefault(connection.coordinator(names[0]), []).extend(names)
    return talks


def _run_hostile_load(
    storm: HostileLoad,
    server: Server,
    observed: ClusterObservation,
    asked: argparse.Namespace,
    pools: Connection,
) -> None:
    deadline = time.perf_counter() + 60 * asked.minutes
    looked = told = renewed = 0.0
    while (
        storm.count.frames < asked.frames and time.perf_counter() < deadline and not observed.gone
    ):
        storm.turn()
        if storm.now_s - looked >= 1.0:
            looked = storm.now_s
            observed.look(server)
            if asked.verbose:
                print(vars(storm.count), [round(m) for m in observed.most_mib], flush=True)
        if storm.now_s - told >= TOLD_EVERY_S:
            told = storm.now_s
            note(f"  {storm.count.frames:,} of {asked.frames:,} frames")
        if storm.count.frames - renewed >= FRAMES_PER_POOL and pools.poll():
            renewed = storm.count.frames
            storm.renew(pools.recv())


def _figures(
    storm: HostileLoad,
    result: WellBehavedResult,
    observed: ClusterObservation,
    phases: Mapping[str, MeasuredPhase],
) -> dict[str, float]:
    count, hostile_phase = storm.count, phases[STORM]
    figures = {
        "frames": float(count.frames),
        "frames_answered": float(count.answered),
        "of_these_in_floods": float(storm.flooding.answered),
        "of_these_drawn_from_schemas": float(storm.mutated.answered),
        "of_these_in_conversations": float(storm.talking.answered),
        "distinct_frames_sent": float(count.distinct),
        **{f"{kind}_share_of_sent": share for kind, share in count.shares().items()},
        **{f"{kind}_sent": float(sent) for kind, sent in sorted(count.sent.items())},
        **{
            f"{API[key].name}_without_error": float(done)
            for key, done in sorted(count.succeeded.items())
        },
        "seconds_s": hostile_phase.seconds,
        "frames_per_s": count.frames / hostile_phase.seconds,
        "connections": float(count.connections),
        "unread_bursts_sent": float(count.unread_bursts),
        "given_up": float(count.gave_up),
        "connections_closed_on_us": float(count.closed_on_us),
        "innocent_heartbeats": float(len(result.between(hostile_phase.begun, hostile_phase.ended))),
        "innocent_other_requests": float(result.others),
        "added_memory_most_mib": observed.added_mib,
        "elections": float(observed.elections),
    }
    for name, phase in phases.items():
        if taken := result.between(phase.begun, phase.ended):
            figures |= {f"{name}_{key}": value for key, value in latencies(taken).items()}
        coordinators, innocents = phase.coordinators, phase.innocents
        figures |= {
            f"{name}_coordinators_cpus": coordinators.run_s / phase.seconds,
            f"{name}_coordinators_waited_share": coordinators.waited_share,
            f"{name}_innocents_waited_share": innocents.waited_share,
            f"{name}_other_processes_cpus": coordinators.others_s / phase.seconds,
        }
    if p99s := result.minute_p99s_ms(hostile_phase.begun, hostile_phase.ended):
        of_minutes = (min(p99s), statistics.median(p99s), max(p99s))
        figures |= dict(zip(MINUTE_P99S, of_minutes, strict=True))
    figures |= _quarter_p99s(result, hostile_phase)
    hostile_p99 = figures.get("storm_p99_ms", 0.0)
    for name in (CALM, NEUTRAL):
        if undisturbed := figures.get(f"{name}_p99_ms"):
            figures[f"storm_p99_by_{name}"] = hostile_p99 / undisturbed
    return figures


def _quarter_p99s(result: WellBehavedResult, phase: MeasuredPhase) -> dict[str, float]:
    """Return the p99 of each quarter of a phase, which shows whether it grows."""
    figures = {}
    for number in range(4):
        begun = phase.begun + number * phase.seconds / 4
        if taken := result.between(begun, begun + phase.seconds / 4):
            figures[f"storm_quarter_{number + 1}_p99_ms"] = latencies(taken)["p99_ms"]
    return figures


def _broken(
    figures: dict[str, float], result: WellBehavedResult, observed: ClusterObservation
) -> list[str]:
    """Return one sentence for each violated rule."""
    broken = []
    if observed.gone:
        broken.append("A coordinator's process ended.")
    if observed.elections:
        broken.append(f"{observed.elections} partitions had an election.")
    if result.failure:
        broken.append(f"A well-behaved client's request failed: {result.failure}.")
    if observed.added_mib > MEMORY_BOUND_MIB:
        broken.append(
            f"A coordinator took {observed.added_mib:.0f} MiB more, above {MEMORY_BOUND_MIB}."
        )
    calm, neutral, storm = (figures.get(f"{name}_p99_ms", 0.0) for name in (CALM, NEUTRAL, STORM))
    if not result.failure and storm > P99_RATIO_MAX * max(calm, neutral):
        broken.append(
            f"The well-behaved clients' p99 rose from {calm:.2f} ms, and {neutral:.2f} ms in the"
            f" neutral phase, to {storm:.2f} ms."
        )
    return broken


def _notes(figures: dict[str, float]) -> list[str]:
    """Return one sentence for each fact that a reader of the figures should know."""
    notes = [METHOD]
    others = max(figures[f"{name}_other_processes_cpus"] for name in (CALM, NEUTRAL, STORM))
    if others > QUIET_CPUS:
        notes.append(
            f"The machine was not quiet: in one phase other processes used {others:.2f} CPUs, so"
            " the p99 says little about the cluster."
        )
    if machine.divides_by_session():
        notes.append(AUTOGROUP_NOTE)
    kept, asked = figures["frames_per_s"], figures["asked_frames_per_s"]
    if kept < KEPT_PACE * asked:
        notes.append(f"The generator sent {kept:.0f} of {asked:.0f} frames per second.")
    waited = figures["storm_coordinators_waited_share"]
    notes.append(
        f"In the storm, the coordinators waited for a CPU for {waited:.0%} of the time in which"
        " they had work."
    )
    return notes


def _epochs(server: Server) -> dict[int, int]:
    """Return every partition's epoch, once each has a leader; the catalogue is partition -1."""
    url = server.metrics.removesuffix("metrics") + "status.json"

    def look() -> dict[int, int]:
        with urllib.request.urlopen(url, timeout=STATUS_S) as answer:
            status = json.load(answer)
        rows = partition_rows(status)
        return {int(row["partition"]): row["epoch"] for row in rows}

    epochs = poll(look, STATUS_S, is_done=lambda found: None not in found.values(), every_s=POLL_S)
    if None in epochs.values():
        raise StartError("A partition has no leader.")
    return epochs


def _other_ports(server: Server) -> list[tuple[str, int]]:
    """Return the ports for peers, and the console's."""
    host = server.address[0]
    clients = {port for _, port in server.bootstrap}
    found = sorted(processes.listening_ports(server.serving) - clients)
    peers = [(host, port) for port in found if _is_for_peers((host, port))]
    console = urllib.parse.urlsplit(server.metrics)
    assert console.port is not None
    return [*peers, (host, console.port)]


def _is_for_peers(address: tuple[str, int]) -> bool:
    """Whether the port answers to the peers' magic word; Ray has listening ports, too."""
    word = msgpack.packb([MAGIC])
    try:
        with socket.create_connection(address, PROBE_S) as connection:
            connection.sendall(len(word).to_bytes(4, "big") + word)
            connection.settimeout(PROBE_S)
            return MAGIC in connection.recv(1_024)
    except OSError:
        return False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rollcall bench hostile",
        description="Send hostile traffic to a cluster started for it.",
    )
    parser.add_argument(
        "--frames", type=int, default=10_000_000, help="frames to send (default: 10000000)"
    )
    parser.add_argument(
        "--minutes", type=float, default=15.0, help="the maximum duration (default: 15)"
    )
    parser.add_argument(
        "--calm", type=float, default=CALM_S, help="seconds of the calm phase before (default: 10)"
    )
    parser.add_argument("--seed", type=int, default=1, help="the seed of the frames (default: 1)")
    parser.add_argument("--verbose", action="store_true", help="print progress every second")
    parser.add_argument("--json", type=result_path, metavar="FILE", help="write everything to FILE")
    add_report_option(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
