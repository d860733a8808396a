"""Kernel data about a server's processes: CPU time, resident memory, listening ports."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from actors.cluster.listening_ports import free_port
from actors.cluster.processes import descendants, started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = (
    "cpu_seconds",
    "descendants",
    "free_port",
    "listener",
    "listening_ports",
    "resident_bytes",
    "started",
    "thread_cpu_seconds",
)


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the user and system time that the processes have used so far.

    A process that has ended does not count: let none end between two readings.
    """
    return _sum(pids, lambda process: sum(process.cpu_times()[:2]))


def thread_cpu_seconds(pid: int) -> dict[int, float]:
    """Return the CPU time that each thread of a process has used so far, by thread id."""
    used = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            used[int(thread.name)] = int((thread / "schedstat").read_text().split()[0]) / 1e9
    return used


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the resident memory of the processes, counting shared pages in each."""
    return int(_sum(pids, lambda process: process.memory_info().rss))


def _sum(pids: Iterable[int], read: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for pid in pids:
        try:
            total += read(psutil.Process(pid))
        except psutil.NoSuchProcess:  # also for a zombie
            continue
    return total


def listener(port: int, among: Iterable[int] | None = None) -> int | None:
    """Return the process that listens on TCP ``port``, if we may inspect it."""
    for pid in psutil.pids() if among is None else among:
        if port in listening_ports([pid]):
            return pid
    return None


def listening_ports(pids: Iterable[int]) -> set[int]:
    """Return the TCP ports that the processes listen on.

    Each process is inspected: a socket that a child has inherited belongs to both.
    """
    ports = set()
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            ports |= {
                row.laddr.port
                for row in psutil.Process(pid).net_connections("tcp")
                if row.status == psutil.CONN_LISTEN and row.laddr
            }
    return ports
