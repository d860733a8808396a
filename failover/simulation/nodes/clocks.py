"""A node's clock: its own beginning and its own speed."""

from __future__ import annotations

from failover.simulation.settings import EPOCH_MS


class NodeClock:
    """Unix milliseconds of one node; ``speed`` is how fast it runs against true time.

    ``changes`` counts what moved it against true time.
    """

    def __init__(self, offset_ms: int, speed: float) -> None:
        self._since_ms = 0
        self._start_ms = EPOCH_MS + offset_ms
        self._speed = speed

        self._frozen_ms: int | None = None
        self.changes = 0

    def run_at(self, speed: float, true_ms: int) -> None:
        """Run at another speed from a true time on."""
        start_ms = self.local(true_ms)
        self._since_ms = true_ms if self._frozen_ms is None else self._frozen_ms
        self._start_ms, self._speed = start_ms, speed
        self.changes += 1

    @property
    def is_frozen(self) -> bool:
        """Whether the clock stands still."""
        return self._frozen_ms is not None

    def freeze(self, true_ms: int) -> None:
        """Stand still from a true time on, until :meth:`go_on`."""
        self._frozen_ms = true_ms

    def go_on(self, true_ms: int) -> None:
        """Show at a true time what it showed when it was frozen, and run on; else do nothing."""
        if self._frozen_ms is not None:
            self._since_ms += true_ms - self._frozen_ms
            self._frozen_ms = None
            self.changes += 1

    def local(self, true_ms: int) -> int:
        """Return what the clock shows at a true time."""
        if self._frozen_ms is not None:
            true_ms = min(true_ms, self._frozen_ms)
        return self._start_ms + int((true_ms - self._since_ms) * self._speed)

    def true(self, local_ms: int) -> int:
        """Return the first true time at which the clock shows ``local_ms`` or more."""
        guess = self._since_ms + int((local_ms - self._start_ms) / self._speed)
        while self.local(guess) < local_ms:
            guess += 1
        return guess
