"""How many bytes of clients' requests one coordinator holds, whole or not, and what happens beyond.

Beyond the limit (``queued.max.request.bytes``) a connection that holds more than a small request
is not read until there is room; whole requests are answered meanwhile, which makes room. Frames
that never become whole make none, so when they are half of what is held, the longest is closed.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

SMALL_BYTES: Final = 64 << 10
"""A connection that holds no more than this is read whatever the others hold."""

UNFINISHED_SHARE: Final = 0.5
KEPT_SHARE: Final = 0.375
"""When unfinished frames are more than the first part of the limit, the longest are closed until
they are no more than the second."""

CLOSED_AT_ONCE: Final = 64


class Holder(Protocol):
    """A connection."""

    unfinished_bytes: int

    def read_again(self) -> None:
        """Read the socket again: there is room."""

    def drop(self, why: str) -> None:
        """Close at once, with one line in the log."""


class HeldBytes:
    """The bytes of all connections of one coordinator."""

    __slots__ = ("_unread", "held", "limit", "unfinished")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.unfinished = 0
        self._unread: dict[Holder, None] = {}

    def add(self, count: int) -> None:
        """Count bytes of whole requests; negative: they are answered."""
        self.held += count
        if count < 0 and self._unread:
            self._read_again()

    def add_unfinished(self, count: int) -> None:
        """Count bytes of unfinished frames; negative: they are finished or gone."""
        self.unfinished += count
        self.add(count)

    @property
    def is_over(self) -> bool:
        """Whether more is held than the limit."""
        return self.held > self.limit

    def leave_unread(self, holder: Holder) -> None:
        """Tell a connection by :meth:`Holder.read_again` when there is room again."""
        self._unread[holder] = None

    def forget(self, holder: Holder) -> None:
        """Forget a connection that is closed."""
        self._unread.pop(holder, None)

    def close_longest(self, holders: Iterable[Holder]) -> None:
        """Close those with the longest unfinished frames, if these take too much of the limit."""
        if not self.is_over or self.unfinished <= UNFINISHED_SHARE * self.limit:
            return
        longest = heapq.nlargest(CLOSED_AT_ONCE, holders, key=lambda each: each.unfinished_bytes)
        for holder in longest:
            if self.unfinished <= KEPT_SHARE * self.limit:
                return
            holder.drop(
                f"{holder.unfinished_bytes} bytes of an unfinished request are too many"
                " while all requests together are above queued.max.request.bytes"
            )

    def _read_again(self) -> None:
        if not self.is_over:
            unread, self._unread = self._unread, {}
            for holder in unread:
                holder.read_again()
