"""Who is served next, when several coordinators with many groups each want a worker.

Served next is the coordinator that has used least of the worker's time, and of its groups the one
that has: a group whose runs are long or many waits behind those that ask for little. Whoever was
away for long begins level with those who are waiting; credit is not saved up.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")

REMEMBERED_MAX = 10_000
"""Groups whose use is remembered per coordinator."""


@dataclass(slots=True)
class _CoordinatorQueue(Generic[Item]):
    """One coordinator's part of the queue."""

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
        """Let an item wait."""
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
        """Take out what is served next, with its coordinator and group; None when nobody waits."""
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
        """Take out everything that a group waits for."""
        queue = self._queues.get(coordinator)
        items = list(queue.waiting.pop(group_id, ())) if queue is not None else []
        self._length -= len(items)
        return items

    def charge(self, coordinator: str, group_id: str, used_ms: float) -> None:
        """Note what serving an item took."""
        queue = self._queues.setdefault(coordinator, _CoordinatorQueue())
        queue.used_ms += used_ms
        used = queue.used_by_group_ms
        used[group_id] = used.get(group_id, 0.0) + used_ms
