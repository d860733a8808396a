"""A node's clock: its own beginning and its own speed."""

from __future__ import annotations

from failover.simulation.settings import EPOCH_MS


class NodeClock:
    """Unix milliseconds of one node; ``speed`` is how fast it runs against true time."""

    def __init__(self, offset_ms: int, speed: float) -> None:
        self._since_ms = 0
        self._start_ms = EPOCH_MS + offset_ms
        self._speed = speed

    def run_at(self, speed: float, true_ms: int) -> None:
        """Run at another speed from a true time on."""
        self._start_ms, self._since_ms, self._speed = self.local(true_ms), true_ms, speed

    def local(self, true_ms: int) -> int:
        """Return what the clock shows at a true time."""
        return self._start_ms + int((true_ms - self._since_ms) * self._speed)

    def true(self, local_ms: int) -> int:
        """Return the first true time at which the clock shows ``local_ms`` or more."""
        guess = self._since_ms + int((local_ms - self._start_ms) / self._speed)
        while self.local(guess) < local_ms:
            guess += 1
        return guess
