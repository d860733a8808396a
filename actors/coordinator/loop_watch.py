"""How long a coordinator's event loop was held: whoever came meanwhile waited for that long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from actors.telemetry.metric_table import HELD_TIME_MS
from actors.telemetry.metrics import Samples, percentile_rows

if TYPE_CHECKING:
    import asyncio

INTERVAL: Final = "event.loop.watch.interval.ms"
"""The config that turns it on: looking costs a per cent or two of a core."""

WINDOW_S: Final = 10.0
LOOKS_MAX: Final = 20_000


class LoopWatch:
    """Looks every ``interval_ms`` whether it is late; how late is how long the loop was held.

    The loop's timers are a millisecond coarse, and so is what is measured.
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
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def gauges(self) -> dict[str, float]:
        """Return how long the loop was held in the last ten seconds; nothing if nobody looks."""
        if not self._interval_s:
            return {}
        return percentile_rows(HELD_TIME_MS, self._held)

    def _wait(self) -> None:
        self._due_s = time.monotonic() + self._interval_s
        self._timer = self._loop.call_later(self._interval_s, self._look)

    def _look(self) -> None:
        self._held.add(max(time.monotonic() - self._due_s, 0.0) * 1000)
        self._wait()
