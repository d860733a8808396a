"""A node's clocks: a steady one with its own start and speed, and the machine's wall clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from failover.simulation.settings import EPOCH_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

JUMP_MS: Final = 15
"""As in the actor's clock: the smallest move of one clock against the other that is noticed."""

BEAT_MS: Final = 500
STALL_MS: Final = 1_000
"""As in the actor's clock: the shortest stall that is noticed."""

WALL_MS: Final = 10_000
"""How often a host gets a reading of the wall clock."""


class SimulatedWallClock:
    """The error of a machine's wall clock, and how it moved since the process last read it.

    ``noticed_ms`` is when the process last saw it move, by the process's own clock; ``led`` has the
    partitions that it then led, with their epochs.
    """

    def __init__(self) -> None:
        self.error_ms = self.noticed_ms = 0
        self.led: Mapping[int, int | None] = {}
        self._moved_ms = 0

    def process_started(self) -> int:
        """Note that a new process reads it, which has seen no move yet; return its error."""
        self.noticed_ms, self.led, self._moved_ms = 0, {}, 0
        return self.error_ms

    def set(self, error_ms: int) -> None:
        """Set the error from now on."""
        self._moved_ms += error_ms - self.error_ms
        self.error_ms = error_ms

    def noticed(self, now: int, led: Mapping[int, int | None]) -> None:
        """Note that the process saw the clock move."""
        self.noticed_ms, self.led = now, led

    def moved_ms(self, frozen_ms: int) -> int:
        """Return the move since the last reading; the steady clock stood for ``frozen_ms``."""
        moved_ms, self._moved_ms = self._moved_ms + frozen_ms, 0
        return moved_ms if abs(moved_ms) > JUMP_MS else 0


class NodeClock:
    """Unix milliseconds of one node; ``speed`` is how fast it runs against true time.

    ``changes`` counts the changes against true time.
    """

    def __init__(self, offset_ms: int, speed: float) -> None:
        self._since_ms = self._error_ms = 0
        self._start_ms = EPOCH_MS + offset_ms
        self._speed = speed

        self._frozen_ms: int | None = None
        self.changes = 0

    def process_started(self, error_ms: int) -> None:
        """Start from a wall clock that is wrong by ``error_ms``, as a new process does."""
        self._start_ms += error_ms - self._error_ms
        self._error_ms = error_ms

    def run_at(self, speed: float, true_ms: int) -> None:
        """Run at another speed, starting at a true time."""
        start_ms = self.local(true_ms)
        self._since_ms = true_ms if self._frozen_ms is None else self._frozen_ms
        self._start_ms, self._speed = start_ms, speed
        self.changes += 1

    @property
    def is_frozen(self) -> bool:
        """Whether the clock stands still."""
        return self._frozen_ms is not None

    def freeze(self, true_ms: int) -> None:
        """Stand still, starting at a true time, until :meth:`go_on`."""
        self._frozen_ms = true_ms

    def go_on(self, true_ms: int) -> None:
        """Resume at a true time from the frozen value; do nothing if it is not frozen."""
        if self._frozen_ms is not None:
            self._since_ms += true_ms - self._frozen_ms
            self._frozen_ms = None
            self.changes += 1

    def local(self, true_ms: int) -> int:
        """Return the reading at a true time."""
        if self._frozen_ms is not None:
            true_ms = min(true_ms, self._frozen_ms)
        return self._start_ms + int((true_ms - self._since_ms) * self._speed)

    def true(self, local_ms: int) -> int:
        """Return the first true time at which the clock shows ``local_ms`` or more."""
        guess = self._since_ms + int((local_ms - self._start_ms) / self._speed)
        while self.local(guess) < local_ms:
            guess += 1
        return guess
