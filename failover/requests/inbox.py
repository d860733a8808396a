"""Requests that wait for the coordinator, served in rotation by group.

A group whose thousand members all send requests at once delays mostly itself: every other waiting
group is served soon. Within a group, requests are served in order of arrival. A request that
concerns no group, such as a lookup of a coordinator, counts as a group of one.

Groups whose requests take long wait in a separate queue, and each of the two queues gets half of
the time if it needs it. So a group whose requests are quick waits for at most one costly request,
not for one of each costly group.

A group that was not served recently goes ahead of those that were, unless its client was: a quiet
group waits for few of the others, however many connections or names a busy client has. Each side
gets half of the time if it needs it.

Where many groups wait, several requests of one are served in a row: their changes to the group are
then written once. :mod:`failover.partitions.coalescing` handles requests that rewrite a large
record.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Item = TypeVar("Item")

ROW_MAX: Final = 16
"""At most this many requests of one group are served in a row."""

SERVE_S_MAX: Final = 0.02
"""Items are served for at most this long before their results are written."""

QUICK_S: Final = 0.0005
"""Requests that take at most this long are quick."""

COSTLY_FOR: Final = 8
"""A group is costly until others were served for this multiple of the time its request took."""

BEHIND_S_MAX: Final = 0.02
AHEAD_S_MAX: Final = 0.001
"""The most time that one queue can be owed because the other was served while it was empty: to the
quick queue, or to the costly one."""

COSTLY_MAX: Final = 4_096
"""How many costly groups are remembered; beyond that all of them are forgotten."""

RECENT_S: Final = 0.02
"""A group or client counts as recently served until others were served for this long."""

FIRST_S_MAX: Final = 0.002
"""How much longer those not served recently are served, while others wait too."""

MORE: Final = 4
"""How many times the time of some clients' requests counts."""

RECENT_MAX: Final = 8_192
"""How many recently served groups and clients are remembered."""


class Inbox(Generic[Item]):
    """Items by group; :meth:`pop` takes the oldest of the group that was served longest ago.

    It continues with that group for as many items as there are groups, up to :data:`ROW_MAX`,
    unless they are costly and a quick group waits. ``source_of`` returns the client of an item: a
    client counts as recently served under all the names it uses. Without it no group goes ahead.
    """

    __slots__ = (
        "_costly",
        "_costly_until_s",
        "_first",
        "_first_lead_s",
        "_lead_s",
        "_length",
        "_line",
        "_quick",
        "_row",
        "_served_at_s",
        "_served_s",
        "_serving",
        "_source_of",
        "following",
    )

    def __init__(self, source_of: Callable[[Item], Hashable] | None = None) -> None:
        self._source_of = source_of
        self._first: dict[Hashable, deque[Item]] = {}
        self._quick: dict[Hashable, deque[Item]] = {}
        self._costly: dict[Hashable, deque[Item]] = {}
        self._costly_until_s: dict[Hashable, float] = {}
        self._served_at_s: dict[Hashable, float] = {}
        self._served_s = 0.0
        self._first_lead_s = (
            -FIRST_S_MAX
        )  # how much longer the first queue was served than the quick one
        self._lead_s = 0.0  # how much longer these two were served than the costly one
        self._length = 0
        self._row = 0
        self._serving: Hashable = None
        self._line = self._quick  # the queue that is being served
        self.following = 0
        """How many items wait that are of the group of the item taken last."""

    def __len__(self) -> int:
        return self._length

    def push(self, group_id: Hashable, item: Item) -> None:
        """Queue an item."""
        waiting = (
            self._quick.get(group_id) or self._first.get(group_id) or self._costly.get(group_id)
        )
        if waiting is None:
            waiting = self._line_of(group_id, item)[group_id] = deque()
        waiting.append(item)
        self._length += 1

    def pop(self) -> Item:
        """Remove and return the next item to serve. Raises IndexError when nothing waits."""
        if not self._length:
            raise IndexError("nothing waits")
        if self._row and self._is_row_over():
            waiting = self._line.pop(self._serving)
            self._line_of(self._serving, waiting[0])[self._serving] = waiting  # after all others
            self._row = 0
        if not self._row:
            self._line = self._next_line()
        self._serving = next(iter(self._line))
        waiting = self._line[self._serving]
        item = waiting.popleft()
        if self._source_of is not None:
            self._served_at_s[self._serving] = self._served_s
            self._served_at_s[self._source_of(item)] = self._served_s
        self._length -= 1
        self._row += 1
        self.following = len(waiting)
        if not waiting:
            del self._line[self._serving]
            self._row = 0
        return item

    def took(self, seconds: float) -> None:
        """Note how long the item taken last took to serve."""
        self._served_s += seconds
        is_quick = self._line is not self._costly and seconds <= QUICK_S
        lead_s = self._lead_s + (seconds if is_quick else -seconds)
        self._lead_s = max(-BEHIND_S_MAX, min(lead_s, AHEAD_S_MAX))
        if self._line is not self._costly:
            counted_s = min(seconds, QUICK_S)  # a costly group pays for itself
            first_lead_s = self._first_lead_s
            first_lead_s += counted_s if self._line is self._first else -counted_s
            self._first_lead_s = max(-FIRST_S_MAX, min(first_lead_s, QUICK_S))
        if len(self._served_at_s) > RECENT_MAX:
            self._served_at_s.clear()
        if not self._length:  # no other group had to wait
            self._costly_until_s.clear()
            self._served_at_s.clear()
            self._lead_s, self._first_lead_s = 0.0, -FIRST_S_MAX
        elif seconds > QUICK_S:
            if len(self._costly_until_s) >= COSTLY_MAX:
                self._costly_until_s.clear()
            self._costly_until_s[self._serving] = self._served_s + COSTLY_FOR * seconds

    def _is_costly(self, group_id: Hashable) -> bool:
        return self._costly_until_s.get(group_id, 0.0) > self._served_s

    def _was_served(self, group_id_or_source: Hashable) -> bool:
        served_at_s = self._served_at_s.get(group_id_or_source)
        return served_at_s is not None and self._served_s - served_at_s <= RECENT_S

    def _line_of(self, group_id: Hashable, item: Item) -> dict[Hashable, deque[Item]]:
        if self._is_costly(group_id):
            return self._costly
        if self._source_of is None or self._was_served(group_id):
            return self._quick
        return self._quick if self._was_served(self._source_of(item)) else self._first

    def _next_line(self) -> dict[Hashable, deque[Item]]:
        if not (self._first or self._quick) or (self._lead_s > 0 and self._costly):
            return self._costly
        is_first = self._first and (self._first_lead_s <= 0 or not self._quick)
        return self._first if is_first else self._quick

    def _is_row_over(self) -> bool:
        others = len(self._first) + len(self._quick) - (self._line is not self._costly)
        if others and self._is_costly(self._serving):
            return True
        waiting = len(self._first) + len(self._quick) + len(self._costly)
        return self._row >= min(waiting, ROW_MAX)


def serve(
    inbox: Inbox[Item],
    ask: Callable[[Item], None],
    clock: Callable[[], float],
    seconds: float,
    counts_more: Callable[[Item], bool] | None = None,
) -> bool:
    """Serve waiting items for about this long, at least one; return whether others still wait.

    The time of an item that ``counts_more`` counts :data:`MORE` times: who waits for the end of the
    turn, such as repeated heartbeats, waits shortly for those.
    """
    began = last = clock()
    while inbox:
        item = inbox.pop()
        does_count_more = counts_more is not None and counts_more(item)
        ask(item)
        now = clock()
        inbox.took(now - last)
        if does_count_more:
            began -= (MORE - 1) * (now - last)
        last = now
        if now - began >= seconds:
            break
    return bool(inbox)
