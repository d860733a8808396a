"""The memory of clients' requests in one coordinator, complete or not, and its limit.

Beyond the limit (``queued.max.request.bytes``) a connection that holds more than a small request
is not read until there is room; handling complete requests makes room. Incomplete frames make none,
so if they take half of the limit, the longest are closed.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

SMALL_BYTES: Final = 64 << 10
"""A connection that holds no more than this is always read."""

UNFINISHED_SHARE: Final = 0.5
KEPT_SHARE: Final = 0.375
"""If incomplete frames exceed the first share of the limit, the longest are closed until they are
within the second."""

CLOSED_AT_ONCE: Final = 64


class Holder(Protocol):
    """A connection."""

    unfinished_bytes: int

    def read_again(self) -> None:
        """Read the socket again: there is memory."""

    def drop(self, why: str) -> None:
        """Close at once, and log why."""


class HeldBytes:
    """The bytes of all connections of one coordinator."""

    __slots__ = ("_unread", "held", "limit", "unfinished")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.unfinished = 0
        self._unread: dict[Holder, None] = {}

    def add(self, count: int) -> None:
        """Count bytes of complete requests; negative: they are answered."""
        self.held += count
        if count < 0 and self._unread:
            self._read_again()

    def add_unfinished(self, count: int) -> None:
        """Count bytes of incomplete frames; negative: they are complete or closed."""
        self.unfinished += count
        self.add(count)

    @property
    def is_over(self) -> bool:
        """Whether more is held than the limit."""
        return self.held > self.limit

    def leave_unread(self, holder: Holder) -> None:
        """Call :meth:`Holder.read_again` on a connection when there is room again."""
        self._unread[holder] = None

    def forget(self, holder: Holder) -> None:
        """Remove a closed connection."""
        self._unread.pop(holder, None)

    def close_longest(self, holders: Iterable[Holder]) -> None:
        """Close the connections with the longest incomplete frames, if these exceed their share."""
        if not self.is_over or self.unfinished <= UNFINISHED_SHARE * self.limit:
            return
        longest = heapq.nlargest(CLOSED_AT_ONCE, holders, key=lambda each: each.unfinished_bytes)
        for holder in longest:
            if self.unfinished <= KEPT_SHARE * self.limit:
                return
            holder.drop(
                f"{holder.unfinished_bytes} bytes of an incomplete request are too many"
                " while all requests together exceed queued.max.request.bytes"
            )

    def _read_again(self) -> None:
        if not self.is_over:
            unread, self._unread = self._unread, {}
            for holder in unread:
                holder.read_again()
