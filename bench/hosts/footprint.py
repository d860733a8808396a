"""What coordinators cost on three hosts: ``python -m bench.hosts.footprint --partitions 50``.

It starts Ray and a cluster on hosts, as operators do, without clients, and prints how long that
took, and for each kind of process the memory, the CPU time to start, and the CPU time when idle.
Memory is the proportional set size: pages that processes share are divided among them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from bench.hosts.clusters import UP_S, HostCluster, compile_assignors
from bench.hosts.hosts import NamespaceHosts
from bench.hosts.namespaces import what_is_missing
from bench.hosts.ray_hosts import RayOnHosts
from bench.hosts.waiting import HostError, patient
from bench.interruption import Interrupted, interruptible
from bench.result_files import result_path, write_aside
from failover.columns import aligned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

OK, FAILURE, BAD_INPUT = 0, 1, 2
HOSTS: Final = 3
PARTITIONS_MAX: Final = 200
IDLE_S: Final = 60.0
SETTLE_S: Final = 30.0
"""How long the cluster is left alone between its start and the measurement of idle processes."""

UP_S_EACH: Final = patient(5)
"""So much longer a start may take for each coordinator, where all hosts share two processors."""

MIB: Final = 1 << 20
ALL: Final = "all"
KINDS: Final[Mapping[str, str]] = {
    "ray::CoordinatorActor": "coordinator",
    "ray::AssignorWorker": "assignor worker",
    "ray::ControllerActor": "controller",
}
"""Kinds of processes, by what their command lines begin with."""

OTHERS: Final = "Ray's own"


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What a process has used: its CPU time, with that of children that have ended, and memory."""

    kind: str
    cpu_s: float
    pss_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCost:
    """What all processes of a kind cost; ``idle_share`` is of one CPU."""

    kind: str
    processes: int
    pss_mib: float
    start_cpu_s: float
    idle_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What a cluster costs. Its start took ``ready_s``, and ``commands_cpu_s`` beside processes."""

    partitions: int
    hosts: int
    ready_s: float
    commands_cpu_s: float
    kinds: tuple[KindCost, ...]

    def text(self) -> str:
        """Return it as a table."""
        lines = [["", "processes", "PSS MiB", "each", "start CPU s", "each", "idle CPU %", "each"]]
        for row in self.kinds:
            figures = (row.pss_mib, row.start_cpu_s, 100 * row.idle_share)
            shown = [f"{one:,.2f}" for each in figures for one in (each, each / row.processes)]
            lines.append([row.kind, str(row.processes), *shown])
        return (
            f"{self.partitions} partitions on {self.hosts} hosts: READY after {self.ready_s:.1f} s;"
            f" commands used {self.commands_cpu_s:.1f} s of CPU time\n"
            f"{aligned(lines, right=range(1, 8))}"
        )


def kind_of(command_line: Sequence[str]) -> str:
    """Return the kind of a process."""
    title = command_line[0] if command_line else ""
    return next((kind for start, kind in KINDS.items() if title.startswith(start)), OTHERS)


def costs(
    ready: Mapping[int, ProcessUse],
    before: Mapping[int, ProcessUse],
    after: Mapping[int, ProcessUse],
    idle_s: float,
) -> tuple[KindCost, ...]:
    """Return the costs by kind, and of all, from readings by process id.

    ``ready`` is of the end of the start; ``before`` and ``after`` are ``idle_s`` apart.
    """
    found = []
    counts = Counter(use.kind for use in after.values())
    for kind in [*KINDS.values(), OTHERS, ALL]:
        of_kind = {pid for pid, use in after.items() if kind in {use.kind, ALL}}
        if not of_kind:
            continue
        idle = sum(after[pid].cpu_s - before[pid].cpu_s for pid in of_kind & before.keys())
        found.append(
            KindCost(
                kind=kind,
                processes=len(after) if kind == ALL else counts[kind],
                pss_mib=sum(after[pid].pss_bytes for pid in of_kind) / MIB,
                start_cpu_s=sum(u.cpu_s for u in ready.values() if kind in {u.kind, ALL}),
                idle_share=idle / idle_s,
            )
        )
    return tuple(found)


def read(namespaces: Iterable[int], *, has_memory: bool = False) -> dict[int, ProcessUse]:
    """Read the processes in the PID namespaces of these processes, but not these themselves."""
    first = [*namespaces]
    wanted = {_namespace(pid) for pid in first}
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # it has ended
            if process.pid in first or _namespace(process.pid) not in wanted:
                continue
            pss = process.memory_full_info().pss if has_memory else 0
            found[process.pid] = ProcessUse(
                kind_of(process.cmdline()), sum(process.cpu_times()[:4]), pss
            )
    return found


def measure(partitions: int, idle_s: float, directory: Path) -> Footprint:
    """Start a cluster on hosts and measure it."""
    compile_assignors()
    with NamespaceHosts(HOSTS, directory) as network:
        hosts = [*network]
        ray = RayOnHosts(hosts[0])
        ray.start(hosts)
        inits = [host.namespaces.pid for host in hosts]
        commands_s, rays = _children_s(), read(inits)
        began = time.monotonic()
        cluster = HostCluster(ray, (f"offsets.topic.num.partitions={partitions}",))
        cluster.up(UP_S + UP_S_EACH * partitions)
        ready_s = time.monotonic() - began
        commands_s = _children_s() - commands_s
        ready = {
            pid: ProcessUse(use.kind, use.cpu_s - (rays[pid].cpu_s if pid in rays else 0.0))
            for pid, use in read(inits).items()
        }
        time.sleep(SETTLE_S)
        before, since = read(inits), time.monotonic()
        time.sleep(idle_s)
        after, idle_s = read(inits, has_memory=True), time.monotonic() - since
    return Footprint(
        partitions=partitions,
        hosts=HOSTS,
        ready_s=ready_s,
        commands_cpu_s=commands_s,
        kinds=costs(ready, before, after, idle_s),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; return the exit code."""
    asked = _parser().parse_args(arguments)
    if missing := what_is_missing():
        print(f"rollcall: {missing}", file=sys.stderr)
        return BAD_INPUT
    try:
        with interruptible(), tempfile.TemporaryDirectory(prefix="rollcall-footprint-") as name:
            found = measure(asked.partitions, asked.idle_seconds, Path(name))
    except (HostError, OSError) as error:
        print(f"rollcall: The footprint could not be measured: {error}", file=sys.stderr)
        return FAILURE
    except Interrupted as stop:
        print(f"rollcall: The measurement was {stop}.", file=sys.stderr)
        return stop.exit_code
    if asked.json:
        write_aside(asked.json, json.dumps(asdict(found), indent=2) + "\n")
    print(found.text())
    return OK


def _namespace(pid: int) -> int:
    return os.stat(f"/proc/{pid}/ns/pid").st_ino


def _children_s() -> float:
    """Return the CPU time of children of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}.footprint",
        description="Measure what coordinators cost on three hosts.",
    )
    parser.add_argument(
        "--partitions", type=int, default=50, choices=range(HOSTS, PARTITIONS_MAX + 1),
        metavar="N", help="offsets.topic.num.partitions, and so many coordinators (default: 50)",
    )  # fmt: skip
    parser.add_argument(
        "--idle-seconds", type=float, default=IDLE_S, metavar="S",
        help=f"how long idle processes are watched (default: {IDLE_S:g})",
    )  # fmt: skip
    parser.add_argument(
        "--json", type=result_path, metavar="FILE", help="write the figures to FILE"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
