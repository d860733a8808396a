"""The CPU priority of threads, which Linux schedules each for itself: of all, or of one."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

EVENT_LOOP_NICENESS: Final = 10
"""How much less nice the thread with a coordinator's event loop is than all others of its host, if
it may be: all its clients wait for it, and none for its other threads."""

THREADS: Final = Path("/proc/self/task")
NICENESS_MAX: Final = 19
PASSES_MAX: Final = 10
"""A thread may start another one while the others are changed."""


def lower_priority(niceness: int) -> None:
    """Make this process nicer by ``niceness``; threads that start later are as nice.

    On Linux ``os.nice`` changes the calling thread alone, and Ray has started others before.
    """
    wanted = min(os.getpriority(os.PRIO_PROCESS, 0) + niceness, NICENESS_MAX)
    for _ in range(PASSES_MAX):
        if not _set_all(wanted):
            return


def raise_own_priority(niceness: int) -> None:
    """Make the calling thread less nice by ``niceness``, if this user may.

    Threads and processes that it starts later are not.
    """
    if sys.platform == "linux":
        with suppress(PermissionError):
            reset = os.sched_getscheduler(0) | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, reset, os.sched_getparam(0))
            own = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, own, os.getpriority(os.PRIO_PROCESS, own) - niceness)


def _set_all(wanted: int) -> bool:
    """Set the threads that are less nice; return whether there were any."""
    found = False
    for thread_id in _thread_ids():
        with suppress(ProcessLookupError):  # it has ended
            if os.getpriority(os.PRIO_PROCESS, thread_id) < wanted:
                os.setpriority(os.PRIO_PROCESS, thread_id, wanted)
                found = True
    return found


def _thread_ids() -> Iterable[int]:
    """Return the threads; 0, which is the whole process, where they are not listed."""
    try:
        return [int(each.name) for each in THREADS.iterdir()]
    except FileNotFoundError:
        return [0]
