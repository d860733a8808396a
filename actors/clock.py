"""The time of one process: Unix milliseconds that never jump, and a sense of having stood still."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

BEAT_MS: Final = 500
"""How often the driver calls :meth:`Clock.beat`."""

STALL_MS: Final = 1_000
"""A pause longer than this beyond the beat is a stall and not a busy moment."""

_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_ms() -> int:
    """Return milliseconds since the machine started, its sleep included."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000


def wall_ms() -> int:
    """Return the machine's Unix time in milliseconds, which an operator may set back and forth."""
    return time.time_ns() // 1_000_000


class Clock:
    """Unix time in milliseconds for deadlines and records.

    It begins with the wall clock and runs with the machine's steady one, so that setting the wall
    clock expels nobody; a difference is made up by one millisecond per beat.

    When the process itself stood still (a paused machine, a long stall), the beats were late by
    that long: :meth:`stalled_ms` tells it once, and deadlines move by it.
    """

    def __init__(
        self, steady: Callable[[], int] = boot_ms, wall: Callable[[], int] = wall_ms
    ) -> None:
        self._steady = steady
        self._wall = wall
        self._offset_ms = wall() - steady()
        self._beaten_ms = steady()

    def now(self) -> int:
        """Return the Unix time in milliseconds."""
        return self._steady() + self._offset_ms

    def beat(self) -> int:
        """Take note that the process runs; return what :meth:`stalled_ms` would have."""
        stalled_ms = self.stalled_ms()
        drift_ms = self._wall() - self.now()
        if drift_ms:
            self._offset_ms += 1 if drift_ms > 0 else -1
        self._beaten_ms = self._steady()
        return stalled_ms

    def stalled_ms(self) -> int:
        """Return for how long the process stood still since the last beat; tells it only once."""
        steady_ms = self._steady()
        late_ms = steady_ms - self._beaten_ms - BEAT_MS
        if late_ms < STALL_MS:
            return 0
        self._beaten_ms = steady_ms
        return late_ms
