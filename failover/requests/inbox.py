"""Requests that wait for the coordinator, served in turn by group.

A group whose thousand members all ask at once waits for itself: soon every other group that waits
is served. Within a group, first come is first served. Who asks about no group, as who looks for a
coordinator does, is a group of one.

A group whose requests take long lines up with its like, and either line has half of the time if it
wants it. So a group whose requests are quick waits for one costly request at most, and not for one
of each costly group.

A group that was not served of late goes ahead of those that were, unless its client was: a quiet
group waits for few of the others, however many connections or names a busy client has. Both have
half of the time if they want it.

Where many groups wait, several requests of one are served in a row: what they change of the group
is then written once. :mod:`failover.partitions.coalescing` has what rewrites a large record.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Item = TypeVar("Item")

ROW_MAX: Final = 16
"""So many requests of one group are served in a row at most."""

SERVE_S_MAX: Final = 0.02
"""For no longer are items served before what they led to is written."""

QUICK_S: Final = 0.0005
"""What takes no longer than this is quick."""

COSTLY_FOR: Final = 8
"""A group counts as costly until others were served for so many times what its request took."""

BEHIND_S_MAX: Final = 0.02
AHEAD_S_MAX: Final = 0.001
"""Of what one line was served for while the other was empty no more is made up for: to the quick
line, or to the costly one."""

COSTLY_MAX: Final = 4_096
"""Of so many groups it is known that they are costly; beyond that all are forgiven."""

RECENT_S: Final = 0.02
"""Who was served while others were served for no longer than this was served of late."""

FIRST_S_MAX: Final = 0.002
"""For so much longer those who were not served of late are served, while others wait too."""

RECENT_MAX: Final = 8_192
"""Of so many groups and clients it is known that they were served of late."""


class Inbox(Generic[Item]):
    """Items by group; :meth:`pop` takes the oldest of the group that was served longest ago.

    It goes on with that group for as many items as there are groups, up to :data:`ROW_MAX`, unless
    they are costly and a quick group waits. ``source_of`` names the client of an item, which is
    served of late under whatever names it asks; without it nobody goes ahead.
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
        )  # the first line was served for so much longer than the quick one
        self._lead_s = 0.0  # these two were served for so much longer than the costly one
        self._length = 0
        self._row = 0
        self._serving: Hashable = None
        self._line = self._quick  # the line that is served now
        self.following = 0
        """So many items wait that are of the group of the item taken last."""

    def __len__(self) -> int:
        return self._length

    def push(self, group_id: Hashable, item: Item) -> None:
        """Let an item wait."""
        waiting = (
            self._quick.get(group_id) or self._first.get(group_id) or self._costly.get(group_id)
        )
        if waiting is None:
            waiting = self._line_of(group_id, item)[group_id] = deque()
        waiting.append(item)
        self._length += 1

    def pop(self) -> Item:
        """Take out what is served next. Raises IndexError when nothing waits."""
        if not self._length:
            raise IndexError("nothing waits")
        if self._row and self._is_row_over():
            waiting = self._line.pop(self._serving)
            self._line_of(self._serving, waiting[0])[self._serving] = waiting  # behind all others
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
        """Learn how long the item taken last took to serve."""
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
        if not self._length:  # nobody had to wait
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
) -> bool:
    """Serve waiting items for about so long, at least one; return whether others still wait."""
    began = last = clock()
    while inbox:
        ask(inbox.pop())
        now = clock()
        inbox.took(now - last)
        last = now
        if now - began >= seconds:
            break
    return bool(inbox)
