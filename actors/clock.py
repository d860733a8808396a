"""The time of one process: milliseconds that never jump, and a sense of having stood still."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

BEAT_MS: Final = 500
"""How often the driver calls :meth:`Clock.beat`."""

STALL_MS: Final = 1_000
"""A pause longer than this beyond the beat is a stall and not a busy moment."""

JUMP_MS: Final = 15
"""The two clocks do not move apart by more than this at once, unless one of them is set: less than
what a follower's promise lasts longer than the lease (:mod:`storage.timing`)."""

READS: Final = 3
"""How often both are read to see whether they have; a process can be put off between two reads."""

_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_ms() -> int:
    """Return milliseconds since the machine started, its sleep included."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000


def wall_ms() -> int:
    """Return the machine's Unix time in milliseconds, which an operator may set back and forth."""
    return time.time_ns() // 1_000_000


class Clock:
    """The time of deadlines and leases, and a sense of the machine's other clock.

    :meth:`now` begins with the wall clock and runs with the machine's steady one, for as long as
    the process lives: setting the wall clock expels nobody and prolongs no lease. What stands in
    records goes by the wall clock (:class:`failover.common_time.CommonTime`).

    When the wall clock moves against the steady one, it was set, or the machine stood still and its
    steady clock with it: ``upon_jump`` is called with by how much, before :meth:`now` returns. A
    machine whose clocks all stood still, and were not set since, can not be noticed.

    When the process itself stood still (a paused machine, a long stall), the beats were late by
    that long: :meth:`stalled_ms` tells it once, and deadlines move by it.
    """

    def __init__(
        self, steady: Callable[[], int] = boot_ms, wall: Callable[[], int] = wall_ms
    ) -> None:
        self._steady = steady
        self.wall = wall
        """Returns the Unix time in milliseconds that the machine shows."""
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
        """Take note that the process runs; return what :meth:`stalled_ms` would have."""
        stalled_ms = self.stalled_ms()
        self._beaten_ms = self._steady()
        moved_ms = self._moved_ms()
        if abs(moved_ms) <= JUMP_MS:
            self._gap_ms += moved_ms  # the clock is being slewed
        return stalled_ms

    def stalled_ms(self) -> int:
        """Return for how long the process stood still since the last beat; tells it only once."""
        steady_ms = self._steady()
        late_ms = steady_ms - self._beaten_ms - BEAT_MS
        if late_ms < STALL_MS:
            return 0
        self._beaten_ms = steady_ms
        return late_ms

    def _moved_ms(self) -> int:
        """Return by how much the two clocks have moved apart, read as close together as can be."""
        for _ in range(READS):
            before_ms, shown_ms = self._steady(), self.wall()
            if self._steady() - before_ms <= 1:
                break  # this process was not put off in between
        return shown_ms - before_ms - self._gap_ms

    def _look_again(self) -> None:
        moved_ms = self._moved_ms()
        if abs(moved_ms) > JUMP_MS:
            self._gap_ms += moved_ms
            self.upon_jump(moved_ms)
