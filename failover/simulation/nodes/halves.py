"""The halves of a simulated process's turns: other events may come in between, as in life."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from failover.simulation.nodes.requests import RequestQueue
    from failover.turn import Turn


class Halves:
    """Runs the halves of turns; ``are_apart``: time may pass between the two of one turn."""

    def __init__(self, rng: random.Random, are_apart: bool) -> None:
        self._rng = rng
        self._are_apart = are_apart
        self.is_first_done = False
        """Whether a turn has served requests and not carried out what was decided."""

    def run(self, turn: Turn, requests: RequestQueue) -> int | None:
        """Run the next half, or both; return in how many ms to run another, None: not yet."""
        if self._are_apart and requests.are_waiting and not self.is_first_done:
            turn.serve()
            self.is_first_done = True
            return self._rng.randint(0, 1)
        if self.is_first_done:
            self.is_first_done = False
            turn.carry_out()
        else:
            turn.take()
        return 1 if requests.are_waiting else None
