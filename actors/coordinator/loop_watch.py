"""Measures how long a coordinator's event loop was blocked; requests wait for that long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from actors.metrics.names import HELD_TIME_MS
from actors.telemetry.metrics import Samples, percentile_rows

if TYPE_CHECKING:
    import asyncio

INTERVAL: Final = "event.loop.watch.interval.ms"
"""The config that enables it: it costs one or two percent of a core."""

WINDOW_S: Final = 10.0
LOOKS_MAX: Final = 20_000


class LoopWatch:
    """Runs a timer every ``interval_ms``; its delay is how long the loop was blocked.

    The loop's timers have a resolution of a millisecond, and so has the measurement.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, interval_ms: int) -> None:
        self._loop = loop
        self._interval_s = interval_ms / 1000
        self._held = Samples(time.monotonic, WINDOW_S, LOOKS_MAX)
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        if interval_ms:
            self._wait()

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def gauges(self) -> dict[str, float]:
        """Return how long the loop was blocked in the last ten seconds; empty if disabled."""
        if not self._interval_s:
            return {}
        return percentile_rows(HELD_TIME_MS, self._held)

    def _wait(self) -> None:
        self._due_s = time.monotonic() + self._interval_s
        self._timer = self._loop.call_later(self._interval_s, self._look)

    def _look(self) -> None:
        self._held.add(max(time.monotonic() - self._due_s, 0.0) * 1000)
        self._wait()
