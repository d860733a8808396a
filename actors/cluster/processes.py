"""Processes of this machine: identified, found by a variable in their environment, and ended.

A process is identified by its id and its start time in kernel ticks since boot. psutil's start
times depend on the clock, so two readings differ after the clock was set. Variables are searched in
the raw bytes of the environment: psutil cannot parse the environment of a process that has
overwritten its start (to change its command line).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from actors.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Process = tuple[int, int]
"""The process id and the start time: process ids are reused."""

PROC: Final = Path("/proc")
GONE: Final = "ZX"
TERM_S: Final = 0.5
KILL_S: Final = 5.0
POLL_S: Final = 0.02

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
"""The options of Linux's ``prctl``."""


def started(pid: int) -> int | None:
    """Return the start time of a process in kernel ticks; None if it has ended."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in GONE else None


def identified(pid: int) -> Process:
    """Return the id and start time of a running process."""
    return pid, started(pid) or 0


def is_alive(process: Process) -> bool:
    """Whether the process is still running."""
    return started(process[0]) == process[1]


def living(pids: Iterable[int]) -> set[Process]:
    """Return those of the processes that are running."""
    return {(pid, began) for pid in pids if (began := started(pid)) is not None}


def descendants(root: int) -> list[int]:
    """Return ``root`` and all its descendants, children last."""
    try:
        children = psutil.Process(root).children(recursive=True)
    except psutil.NoSuchProcess:
        children = []
    return [root, *(child.pid for child in children)]


def with_environment(setting: str) -> set[Process]:
    """Return our processes that were started with ``NAME=value`` in their environment."""
    wanted, found = f"{setting}\0".encode(), []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if wanted in (PROC / str(pid) / "environ").read_bytes():
                found.append(pid)
    return living(found)


def with_output_in(directory: Path) -> set[Process]:
    """Return our processes whose standard output or error is a file below ``directory``."""
    found = []
    for pid in psutil.pids():
        for stream in (1, 2):
            with contextlib.suppress(OSError):
                if (PROC / str(pid) / "fd" / str(stream)).readlink().is_relative_to(directory):
                    found.append(pid)
    return living(found)


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` after the command: state, parent, ..."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()


# --- ending them


def end(find: Callable[[], set[Process]]) -> set[Process]:
    """End the processes that ``find`` returns, and those that they start meanwhile.

    They get SIGTERM, then SIGKILL. Returns those that are left: only processes that hang in the
    kernel.
    """
    known: set[Process] = set()
    for how, wait_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
        deadline_s = time.monotonic() + wait_s
        told: set[Process] = set()
        while time.monotonic() < deadline_s:
            known = {process for process in known | find() if is_alive(process)}
            if not known:
                return known
            for process in known - told:
                send(process, how)
            told |= known
            reap()
            time.sleep(POLL_S)
    return known


def send(process: Process, how: signal.Signals) -> None:
    """Send a signal to a process, if it is still running."""
    if is_alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process[0], how)


def wait_gone(processes: Iterable[Process], wait_s: float) -> bool:
    """Wait until all of them have ended; False on timeout."""
    waited_for = set(processes)

    def are_gone() -> bool:
        reap()
        return not any(map(is_alive, waited_for))

    return poll(are_gone, wait_s, every_s=POLL_S)


def reap() -> None:
    """Reap children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


# --- parents and children


def die_with_parent(how: signal.Signals, parent: int = 0) -> None:
    """Let the kernel signal this process when its parent thread ends, even by kill -9.

    ``parent`` is the parent's process id; if it has already ended, this process exits now.
    """
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(how), 0, 0, 0)
    if parent and os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of those descendants of this process whose parent ends."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
