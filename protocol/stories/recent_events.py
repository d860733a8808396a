"""Recent events of groups, until the rebalance that they belong to has ended."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import fields, replace
from functools import cache
from typing import Any, Final, Generic, Protocol, TypeVar

from protocol.stories.story import TEXT_MAX, cut

EVENTS_PER_GROUP: Final = 128
"""Events of one group that wait for its story."""

ID_MAX: Final = 512
"""Characters of the id of a member that is kept; ids end with what makes them unique."""

IDS: Final = frozenset({"member_id", "group_instance_id", "previous_member_id"})


class GroupEvent(Protocol):
    """What happened in a group, and when (Unix ms)."""

    @property
    def group_id(self) -> str:
        """The group."""

    @property
    def time_ms(self) -> int:
        """When it happened."""


E = TypeVar("E", bound=GroupEvent)
V = TypeVar("V")


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
        event = shortened(event)
        events = self._by_group.setdefault(event.group_id, deque(maxlen=self._per_group))
        if events and len(event.group_id) > TEXT_MAX:
            event = _with(event, {"group_id": events[-1].group_id})  # which is there once
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


def shortened(value: V) -> V:
    """Return an event, or another fact, without what no story keeps of its texts.

    The group's id stays as it is.
    """
    changed: dict[str, str] = {}
    kind: Any = type(value)
    for name in _texts(kind):
        text = getattr(value, name)
        if text is None or len(text) <= TEXT_MAX:
            continue
        if name not in IDS:
            changed[name] = cut(text)
        elif len(text) > ID_MAX:
            changed[name] = f"{text[: ID_MAX // 2]}…{text[1 - ID_MAX // 2 :]}"
    return _with(value, changed) if changed else value


def _with(value: Any, changed: dict[str, str]) -> Any:
    return replace(value, **changed)


@cache
def _texts(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields that are texts, and no words of ours."""
    texts = [each.name for each in fields(kind) if each.type in ("str", "str | None")]
    return tuple(each for each in texts if each != "group_id")
