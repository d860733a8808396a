"""The time of one process: milliseconds that never jump, and detection of stalls."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

BEAT_MS: Final = 500
"""How often the driver calls :meth:`Clock.beat`."""

STALL_MS: Final = 1_000
"""A beat that is later than this is a stall."""

JUMP_MS: Final = 15
"""The two clocks differ by more than this at once only if one of them was set. It is less than the
margin by which a follower's promise outlasts the lease (:mod:`storage.timing`)."""

READS: Final = 3
"""How often both clocks are read: the process can be preempted between two reads."""

_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_ms() -> int:
    """Return the milliseconds since the machine booted, including suspend."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000


def wall_ms() -> int:
    """Return the machine's Unix time in milliseconds; an operator may set it at any time."""
    return time.time_ns() // 1_000_000


class Clock:
    """The time of deadlines and leases, compared with the machine's wall clock.

    :meth:`now` starts at the wall clock's time and then follows the machine's monotonic clock, so
    that setting the wall clock expels no member and extends no lease. Timestamps in records follow
    the wall clock (:class:`failover.common_time.CommonTime`).

    When the wall clock moves relative to the monotonic one, it was set, or the machine was paused
    together with its monotonic clock. ``upon_jump`` is called with the difference before
    :meth:`now` returns. A pause in which all clocks stood still cannot be detected.

    When the process was paused or stalled, its beats are late by that time: :meth:`stalled_ms`
    returns it once, and deadlines move by it.
    """

    def __init__(
        self, steady: Callable[[], int] = boot_ms, wall: Callable[[], int] = wall_ms
    ) -> None:
        self._steady = steady
        self.wall = wall
        """Returns the machine's Unix time in milliseconds."""
        self._offset_ms = self._gap_ms = wall() - steady()
        self._beaten_ms = steady()
        self.upon_jump: Callable[[int], None] = lambda _: None

    def now(self) -> int:
        """Return the time of this process in milliseconds."""
        steady_ms = self._steady()
        if not -JUMP_MS <= self.wall() - steady_ms - self._gap_ms <= JUMP_MS:
            self._look_again()
            steady_ms = self._steady()
        return steady_ms + self._offset_ms

    def beat(self) -> int:
        """Record that the process is running; return :meth:`stalled_ms`."""
        stalled_ms = self.stalled_ms()
        self._beaten_ms = self._steady()
        moved_ms = self._moved_ms()
        if abs(moved_ms) <= JUMP_MS:
            self._gap_ms += moved_ms  # the clock is being slewed
        return stalled_ms

    def stalled_ms(self) -> int:
        """Return how long the process was stalled since the last beat; the next call returns 0."""
        steady_ms = self._steady()
        late_ms = steady_ms - self._beaten_ms - BEAT_MS
        if late_ms < STALL_MS:
            return 0
        self._beaten_ms = steady_ms
        return late_ms

    def _moved_ms(self) -> int:
        """Return by how much the two clocks have moved apart, from reads as close as possible."""
        for _ in range(READS):
            before_ms, shown_ms = self._steady(), self.wall()
            if self._steady() - before_ms <= 1:
                break  # the process was not preempted in between
        return shown_ms - before_ms - self._gap_ms

    def _look_again(self) -> None:
        moved_ms = self._moved_ms()
        if abs(moved_ms) > JUMP_MS:
            self._gap_ms += moved_ms
            self.upon_jump(moved_ms)
