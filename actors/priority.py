"""The CPU priority of a process: of all its threads, which Linux schedules each for itself."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

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
