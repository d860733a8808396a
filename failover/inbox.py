"""Requests that wait for the coordinator, served in turn by group.

A group whose thousand members all ask at once waits for itself: soon every other group that waits
is served. Within a group, first come is first served. Who asks about no group, as who looks for a
coordinator does, is a group of one.

Where many groups wait, several requests of one are served in a row: what they change of the group
is then written once. Where a request rewrites a large record, the row is as long as the record
demands: a classic group's record has all its members in it, so N static members that return
together must not write it N times, nor once a millisecond.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Item = TypeVar("Item")

ROW_MAX: Final = 16
"""So many requests of one group are served in a row at most, unless they rewrite a large record."""

PARTS_PER_REQUEST: Final = 16
"""Who rewrites a record of N parts is served in a row with N / 16 of the group's other requests: to
rewrite it costs each of them 16 parts, however large the group is."""

SERVE_S_MAX: Final = 0.02
"""For no longer are items served before what they led to is written."""


class Inbox(Generic[Item]):
    """Items by group; :meth:`pop` takes the oldest of the group that was served longest ago.

    It goes on with that group for as many items as there are groups, up to :data:`ROW_MAX`, or as
    :meth:`stay` demands.
    """

    __slots__ = ("_length", "_row", "_row_min", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[Item]] = {}
        self._length = 0
        self._row = 0
        self._row_min = 0

    def __len__(self) -> int:
        return self._length

    def push(self, group_id: Hashable, item: Item) -> None:
        """Let an item wait."""
        waiting = self._waiting.get(group_id)
        if waiting is None:
            waiting = self._waiting[group_id] = deque()
        waiting.append(item)
        self._length += 1

    def pop(self) -> Item:
        """Take out what is served next. Raises IndexError when nothing waits."""
        group_id = next(iter(self._waiting), None)
        if group_id is None:
            raise IndexError("nothing waits")
        if self._row and self._row >= max(min(len(self._waiting), ROW_MAX), self._row_min):
            self._waiting[group_id] = self._waiting.pop(group_id)  # behind all others
            self._row = self._row_min = 0
            group_id = next(iter(self._waiting))
        waiting = self._waiting[group_id]
        item = waiting.popleft()
        self._length -= 1
        self._row += 1
        if not waiting:
            del self._waiting[group_id]
            self._row = self._row_min = 0
        return item

    def stay(self, parts: int) -> None:
        """Learn that the item taken last rewrites a record of so many parts: lengthen its row."""
        if self._row:
            self._row_min = max(self._row_min, parts // PARTS_PER_REQUEST)

    @property
    def is_staying(self) -> bool:
        """Whether more of the same group had better be served before anything is written."""
        return 0 < self._row < self._row_min


def serve(
    inbox: Inbox[Item],
    ask: Callable[[Item], int],
    clock: Callable[[], float],
    seconds: float,
    seconds_max: float = SERVE_S_MAX,
) -> bool:
    """Serve waiting items for about so long, at least one; return whether others still wait.

    ``ask`` returns the parts of the record that the item rewrites, as :meth:`Inbox.stay` wants to
    know. A row that has to be longer is gone on with, but for no longer than ``seconds_max``.
    """
    began = clock()
    while inbox:
        inbox.stay(ask(inbox.pop()))
        served_s = clock() - began
        if served_s >= seconds and (served_s >= seconds_max or not inbox.is_staying):
            break
    return bool(inbox)
