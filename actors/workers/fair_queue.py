"""A fair queue for several coordinators with many groups that share a worker.

The next item is that of the coordinator that has used the least of the worker's time, and of its
group that has used the least. So a group with long or many runs waits behind groups with few. A
coordinator that was idle starts level with those that wait: it accumulates no credit.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")

REMEMBERED_MAX = 10_000
"""The groups per coordinator whose used time is remembered."""


@dataclass(slots=True)
class _CoordinatorQueue(Generic[Item]):
    """The items of one coordinator."""

    used_ms: float = 0.0
    used_by_group_ms: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, deque[Item]] = field(default_factory=dict)

    def next_group(self) -> str:
        return min(self.waiting, key=lambda group_id: self.used_by_group_ms.get(group_id, 0.0))


class FairQueue(Generic[Item]):
    """Items by coordinator and group; items of one group stay in order."""

    def __init__(self) -> None:
        self._queues: dict[str, _CoordinatorQueue[Item]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, coordinator: str, group_id: str, item: Item) -> None:
        """Add an item."""
        queue = self._queues.setdefault(coordinator, _CoordinatorQueue())
        if not queue.waiting:
            others = (other.used_ms for other in self._queues.values() if other.waiting)
            queue.used_ms = max(queue.used_ms, min(others, default=0.0))
        if group_id not in queue.waiting:
            used = queue.used_by_group_ms
            least = min((used.get(other, 0.0) for other in queue.waiting), default=0.0)
            used[group_id] = max(used.pop(group_id, 0.0), least)
            if len(used) > REMEMBERED_MAX:
                del used[next(iter(used))]
        queue.waiting.setdefault(group_id, deque()).append(item)
        self._length += 1

    def pop(self) -> tuple[str, str, Item] | None:
        """Remove and return the next item, with its coordinator and group; None if empty."""
        active = {name: queue for name, queue in self._queues.items() if queue.waiting}
        if not active:
            return None
        name = min(active, key=lambda each: active[each].used_ms)
        queue = active[name]
        group_id = queue.next_group()
        items = queue.waiting[group_id]
        item = items.popleft()
        if not items:
            del queue.waiting[group_id]
        self._length -= 1
        return name, group_id, item

    def discard(self, coordinator: str, group_id: str) -> list[Item]:
        """Remove and return all items of a group."""
        queue = self._queues.get(coordinator)
        items = list(queue.waiting.pop(group_id, ())) if queue is not None else []
        self._length -= len(items)
        return items

    def charge(self, coordinator: str, group_id: str, used_ms: float) -> None:
        """Add the time that an item took."""
        queue = self._queues.setdefault(coordinator, _CoordinatorQueue())
        queue.used_ms += used_ms
        used = queue.used_by_group_ms
        used[group_id] = used.get(group_id, 0.0) + used_ms
