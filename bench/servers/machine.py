"""Which processes used the machine's CPUs between two readings, and which had to wait for one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from actors.cluster.processes import PROC, descendants
from bench.servers import processes

if TYPE_CHECKING:
    from collections.abc import Iterable

NS: Final = 1e-9
BUSY: Final = ("user", "nice", "system", "irq", "softirq", "steal")
"""The times in which a CPU is busy; ``steal`` is what other machines on the same host took."""

AUTOGROUP: Final = Path("/proc/sys/kernel/sched_autogroup_enabled")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUsage:
    """CPU seconds since a time in the past; :meth:`since` returns the difference of two."""

    machine_s: float
    """All CPUs, all processes."""

    ours_s: float
    """This process and all its descendants."""

    run_s: float
    """The watched processes: running on a CPU."""

    waited_s: float
    """The watched processes: ready to run, but waiting for a CPU."""

    def since(self, before: CpuUsage) -> CpuUsage:
        """Return the use since an earlier reading."""
        return CpuUsage(
            machine_s=self.machine_s - before.machine_s,
            ours_s=self.ours_s - before.ours_s,
            run_s=self.run_s - before.run_s,
            waited_s=self.waited_s - before.waited_s,
        )

    @property
    def waited_share(self) -> float:
        """The share of the watched processes' time in which they were ready but not running."""
        wanted_s = self.run_s + self.waited_s
        return self.waited_s / wanted_s if wanted_s > 0 else 0.0

    @property
    def others_s(self) -> float:
        """The use by processes that are not ours."""
        return max(self.machine_s - self.ours_s, 0.0)


def usage(watched: Iterable[int]) -> CpuUsage:
    """Read the current values."""
    run_s, waited_s = _scheduled(watched)
    ours_s, machine_s = processes.cpu_seconds(descendants(os.getpid())), _machine_s()
    return CpuUsage(machine_s=machine_s, ours_s=ours_s, run_s=run_s, waited_s=waited_s)


def divides_by_session() -> bool | None:
    """Return whether Linux divides CPU time between sessions first; None if it cannot."""
    try:
        return AUTOGROUP.read_text().strip() != "0"
    except OSError:
        return None


def _scheduled(pids: Iterable[int]) -> tuple[float, float]:
    """Return how long the processes' threads ran, and how long they waited for a CPU.

    Zeros where the kernel does not count it.
    """
    run_ns = waited_ns = 0
    for pid in pids:
        for path in (PROC / str(pid) / "task").glob("*/schedstat"):
            try:
                run, waited, _ = path.read_text().split()
            except (OSError, ValueError):
                continue  # the thread is gone
            run_ns += int(run)
            waited_ns += int(waited)
    return NS * run_ns, NS * waited_ns


def _machine_s() -> float:
    times = psutil.cpu_times()
    return float(sum(getattr(times, name) for name in BUSY))
