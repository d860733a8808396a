"""What the kernel knows of a server's processes: CPU time, resident memory, who listens where."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.cluster.processes import PROC, descendants, started, stat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ("cpu_seconds", "descendants", "free_port", "listener", "resident_bytes", "started")

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
LISTEN: Final = "0A"


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the user and system time that the processes have used so far.

    A process that is gone counts for nothing: do not let one end between two readings.
    """
    return sum(_cpu_ticks(pid) for pid in pids) / TICKS_PER_SECOND


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the resident memory of the processes, shared pages counted in each."""
    total = 0
    for pid in pids:
        text = _read(PROC / str(pid) / "statm")
        total += int(text.split()[1]) * PAGE_BYTES if text else 0
    return total


def listener(port: int, among: Iterable[int] | None = None) -> int | None:
    """Return the process that listens on TCP ``port``, if it may be looked into."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for pid in _pids() if among is None else among:
        if sockets & set(_open_files(pid)):
            return pid
    return None


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())


def _cpu_ticks(pid: int) -> int:
    fields = stat(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _open_files(pid: int) -> Iterator[str]:
    try:
        entries = list(os.scandir(PROC / str(pid) / "fd"))
    except OSError:
        return
    for entry in entries:
        try:
            yield os.readlink(entry.path)
        except OSError:
            continue


def listening_ports(pids: Iterable[int]) -> set[int]:
    """Return the TCP ports that the processes listen on."""
    sockets = {file for pid in pids for file in _open_files(pid)}
    return {port for inode, port in _listening() if f"socket:[{inode}]" in sockets}


def _listening_inodes(port: int) -> Iterator[str]:
    return (inode for inode, found in _listening() if found == port)


def _listening() -> Iterator[tuple[str, int]]:
    """Return the inode and the port of every listening socket."""
    for table in ("net/tcp", "net/tcp6"):
        for line in _read(PROC / table).splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN:
                yield fields[9], int(fields[1].rpartition(":")[2], 16)
