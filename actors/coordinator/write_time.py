"""How long the writes of a turn took the event loop, apart from what other processes took.

On a slow disk, requests are handled for as long as a write takes. A write also takes long while
other processes have the CPU. Then longer turns would only make clients wait longer: a write counts
with its own CPU time, unless it has waited for something.
"""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _waits() -> int:
    """Return how often this thread has given up the CPU by itself: to wait."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


class WriteTime:
    """Adds up the writes of a turn."""

    __slots__ = ("_began", "_clock_s", "_cpu_s", "_sum_s", "_waits")

    def __init__(
        self,
        clock_s: Callable[[], float] = time.perf_counter,
        cpu_s: Callable[[], float] = time.thread_time,
        waits: Callable[[], int] = _waits,
    ) -> None:
        self._clock_s, self._cpu_s, self._waits = clock_s, cpu_s, waits
        self._began = (0.0, 0.0, 0)
        self._sum_s = 0.0

    def begin(self) -> None:
        """Note that a write begins."""
        self._began = (self._clock_s(), self._cpu_s(), self._waits())

    def end(self) -> float:
        """Note that it has ended; return the seconds that it took in all."""
        began_s, cpu_began_s, waits_before = self._began
        took_s = self._clock_s() - began_s
        has_waited = self._waits() > waits_before
        self._sum_s += took_s if has_waited else self._cpu_s() - cpu_began_s
        return took_s

    def take(self) -> float:
        """Return the seconds that count since the last call."""
        sum_s, self._sum_s = self._sum_s, 0.0
        return sum_s
