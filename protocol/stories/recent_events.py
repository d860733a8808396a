"""Recent events of groups, until the rebalance that they belong to has ended."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, Generic, Protocol, TypeVar

EVENTS_PER_GROUP: Final = 128
"""Events of one group that wait for its story."""


class GroupEvent(Protocol):
    """What happened in a group, and when (Unix ms)."""

    @property
    def group_id(self) -> str:
        """The group."""

    @property
    def time_ms(self) -> int:
        """When it happened."""


E = TypeVar("E", bound=GroupEvent)


class RecentEvents(Generic[E]):
    """At most ``per_group`` events of a group, and ``all_max`` of all groups.

    Beyond it the oldest event of the group makes room, or all events of the group that was quiet
    longest.
    """

    def __init__(self, per_group: int, all_max: int) -> None:
        self._per_group = per_group
        self._all_max = all_max
        self._by_group: OrderedDict[str, deque[E]] = OrderedDict()
        self._count = 0

    def add(self, event: E) -> None:
        """Add an event."""
        events = self._by_group.setdefault(event.group_id, deque(maxlen=self._per_group))
        self._by_group.move_to_end(event.group_id)
        self._count += len(events) < self._per_group
        events.append(event)
        while self._count > self._all_max:
            self.forget(next(iter(self._by_group)))

    def take(self, group_id: str, started_ms: int, ended_ms: int, kept_from_ms: int) -> list[E]:
        """Return a rebalance's events, the oldest first.

        Those from ``kept_from_ms`` on stay for the next rebalance.
        """
        found = sorted(self._by_group.get(group_id, ()), key=lambda each: each.time_ms)
        self.forget(group_id)
        for event in found:
            if event.time_ms >= kept_from_ms:
                self.add(event)
        return [each for each in found if started_ms <= each.time_ms <= ended_ms]

    def forget(self, group_id: str) -> None:
        """Drop the events of one group."""
        self._count -= len(self._by_group.pop(group_id, ()))
