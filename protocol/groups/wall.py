"""The clock of records, apart from the clock of deadlines.

Handlers get ``now``: milliseconds that run evenly and are never set. Sessions, delays and leases go
by it. What is written into records and compared with other processes' records goes by the wall
clock, which may be set at any time (:mod:`failover.common_time`).
"""

from __future__ import annotations


class WallClock:
    """How far the wall clock is ahead of ``now``, in ms; the owner sets it."""

    __slots__ = ("is_settled", "offset_ms")

    def __init__(self) -> None:
        self.offset_ms = 0
        self.is_settled = True
        """Whether it is right as far as anybody can tell: only then may anything expire by it."""

    def at(self, now: int) -> int:
        """Return the Unix time in ms, for a record."""
        return now + self.offset_ms

    def since(self, timestamp_ms: int) -> int:
        """Return a record's Unix time as deadlines count; 0 and less say that it is not known."""
        return timestamp_ms if timestamp_ms <= 0 else timestamp_ms - self.offset_ms
