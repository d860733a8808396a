"""The clock for record timestamps, separate from the clock for deadlines.

Handlers get ``now``: milliseconds of a steady clock that is never set. Sessions, delays and leases
use it. Times that are written into records, and compared with records of other processes, use the
wall clock, which may be set at any time (:mod:`failover.common_time`).
"""

from __future__ import annotations


class WallClock:
    """The offset of the wall clock from ``now``, in ms; the owner sets it."""

    __slots__ = ("is_settled", "offset_ms")

    def __init__(self) -> None:
        self.offset_ms = 0
        self.is_settled = True
        """Whether the offset is believed to be right: nothing may expire by it otherwise."""

    def at(self, now: int) -> int:
        """Return the Unix time in ms, for a record."""
        return now + self.offset_ms

    def since(self, timestamp_ms: int) -> int:
        """Convert a record's Unix time to the deadline clock; keep 0 and less (unknown)."""
        return timestamp_ms if timestamp_ms <= 0 else timestamp_ms - self.offset_ms
