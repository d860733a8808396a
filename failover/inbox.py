"""Requests that wait for the coordinator, served in turn by group.

A group whose thousand members all ask at once waits for itself: soon every other group that waits
is served. Within a group, first come is first served. Who asks about no group, as who looks for a
coordinator does, is a group of one.

Where many groups wait, several requests of one are served in a row: what they change of the group
is then written once. :mod:`failover.runs` has what rewrites a large record.
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


class Inbox(Generic[Item]):
    """Items by group; :meth:`pop` takes the oldest of the group that was served longest ago.

    It goes on with that group for as many items as there are groups, up to :data:`ROW_MAX`.
    """

    __slots__ = ("_length", "_row", "_waiting", "following")

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[Item]] = {}
        self._length = 0
        self._row = 0
        self.following = 0
        """So many items wait that are of the group of the item taken last."""

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
        if self._row and self._row >= min(len(self._waiting), ROW_MAX):
            self._waiting[group_id] = self._waiting.pop(group_id)  # behind all others
            self._row = 0
            group_id = next(iter(self._waiting))
        waiting = self._waiting[group_id]
        item = waiting.popleft()
        self._length -= 1
        self._row += 1
        self.following = len(waiting)
        if not waiting:
            del self._waiting[group_id]
            self._row = 0
        return item


def serve(
    inbox: Inbox[Item],
    ask: Callable[[Item], None],
    clock: Callable[[], float],
    seconds: float,
) -> bool:
    """Serve waiting items for about so long, at least one; return whether others still wait."""
    began = clock()
    while inbox:
        ask(inbox.pop())
        if clock() - began >= seconds:
            break
    return bool(inbox)
