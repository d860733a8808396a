"""Requests that wait for the coordinator, served in turn by group.

A group whose thousand members all ask at once waits for itself: between two of its requests, one
of every other group that waits is served. Within a group, first come is first served. Who asks
about no group, as who looks for a coordinator does, is a group of one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Items by group; :meth:`pop` takes the oldest of the group that was served longest ago."""

    __slots__ = ("_length", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[Item]] = {}
        self._length = 0

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
        waiting = self._waiting.pop(group_id)
        item = waiting.popleft()
        self._length -= 1
        if waiting:
            self._waiting[group_id] = waiting  # behind all others
        return item
