"""What hostile connections have done: frames by kind, answers, connections."""

from __future__ import annotations

from collections import Counter
from typing import Final

Address = tuple[str, int]

PATIENCE_S: Final = 5.0
"""A connection that waits longer (for a rebalance, say) is closed and opened again."""


class HostileCounts:
    """Totals of the load.

    A frame counts when a server has handled it: it was answered, or its connection was closed
    because of it, or it timed out. Frames sent after that, and by connections that do not read, are
    not counted. ``distinct`` are the different frames that were sent, ``sent`` all by kind;
    ``succeeded`` are the answers without an error in conversations, by API key.
    """

    def __init__(self) -> None:
        self.answered = self.closed_on_us = self.gave_up = self.connections = 0
        self.distinct = 0
        self.sent: Counter[str] = Counter()
        self.succeeded: Counter[int] = Counter()

    @property
    def frames(self) -> int:
        """Frames that servers have handled."""
        return self.answered + self.closed_on_us + self.gave_up
