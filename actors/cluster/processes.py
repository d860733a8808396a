"""Processes of this machine: told apart, found by a mark in their environment, and ended.

A process is its id and its start time in kernel ticks since boot. Ticks and not psutil's seconds:
these are computed from the clock, so that two readings differ after the clock was set. A mark is
looked for in the bytes of an environment: of a process that has overwritten the beginning of it
(to change its command line) psutil reads no variables.
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Process = tuple[int, int]
"""The process id, and when the process began: ids are used again."""

PROC: Final = Path("/proc")
GONE: Final = "ZX"
TERM_S: Final = 0.5
KILL_S: Final = 5.0
POLL_S: Final = 0.02

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
"""The options of Linux's ``prctl``."""


def started(pid: int) -> int | None:
    """Return when a process began, in kernel ticks; None when it is gone."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in GONE else None


def identified(pid: int) -> Process:
    """Return a living process's id and start time."""
    return pid, started(pid) or 0


def is_alive(process: Process) -> bool:
    """Say whether a process still runs."""
    return started(process[0]) == process[1]


def living(pids: Iterable[int]) -> set[Process]:
    """Identify those of the processes that run."""
    return {(pid, began) for pid in pids if (began := started(pid)) is not None}


def descendants(root: int) -> list[int]:
    """Return ``root`` and every process that it or its children started, children last."""
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

    They are asked to end, then killed. Returns those that are left: none, but for processes that
    hang in the kernel.
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
    """Send a signal to a process, if it still runs."""
    if is_alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process[0], how)


def wait_gone(processes: Iterable[Process], wait_s: float) -> bool:
    """Wait until none of them is alive; False when one still is."""
    deadline_s = time.monotonic() + wait_s
    waited_for = set(processes)
    while any(map(is_alive, waited_for)):
        if time.monotonic() > deadline_s:
            return False
        reap()
        time.sleep(POLL_S)
    return True


def reap() -> None:
    """Let the kernel forget our children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


# --- parents and children


def die_with_parent(how: signal.Signals, parent: int = 0) -> None:
    """Have this process sent a signal when the thread that started it ends, by kill -9 too.

    ``parent`` is that process: when it is gone already, this process ends now.
    """
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(how), 0, 0, 0)
    if parent and os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of those descendants of this process whose parent ends."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
