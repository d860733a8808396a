"""How many traces a process writes to its own file, which nobody has asked for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

TRACES_PER_S: Final = 5
"""About 2 % of a processor (``docs/performance.md``); storms are in ``rollcall explain``."""

BURST_MAX: Final = 100
"""Traces that are written at once after quiet times."""


class TraceBudget:
    """Grows by ``TRACES_PER_S`` each second up to ``BURST_MAX``; used by one thread."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._left = float(BURST_MAX)
        self._at_s = now_s()

    def take(self) -> bool:
        """Take one trace; return whether there was one left."""
        now_s = self._now_s()
        grown = self._left + (now_s - self._at_s) * TRACES_PER_S
        self._left, self._at_s = min(grown, BURST_MAX), now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
