"""Committed offsets of deleted topics, including topics deleted while this partition had no leader.

A deletion reaches the leader as ``TopicsDeleted``. A partition that had no leader then, or whose
leader died meanwhile, catches up after the next election, slice by slice: the catalogue keeps the
ids of deleted topics. Only an id proves a deletion. An unknown topic does not: this node's
catalogue may be behind, and others may know the topic already.
"""

from __future__ import annotations

from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.timers import TimerKind
from protocol.records import OffsetCommitKey, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set

    from protocol.groups.context import Context
    from protocol.groups.timers import TimerKey

SLICE_GROUPS: Final = 2_000
"""Groups checked per slice: heartbeats in between must not wait."""


def elected(ctx: Context, now: int) -> None:
    """Begin to remove what earlier leaders have not removed."""
    if ctx.topics.deleted and ctx.offsets:
        ctx.timers.set(TimerKind.DELETED_TOPICS, "", "", now)


def sweep(ctx: Context, key: TimerKey, now: int) -> None:
    """Check one slice of the groups; the timer's member id says where it begins."""
    position = int(key.member_id or 0)
    names = ctx.topics.deleted.keys()
    for group_id in list(islice(ctx.offsets, position, position + SLICE_GROUPS)):
        ctx.contain(group_id, "topics deleted", remove, ctx, group_id, names)
        position += group_id in ctx.offsets  # when a group is gone, those behind it move up
    if position < len(ctx.offsets):
        ctx.timers.set(TimerKind.DELETED_TOPICS, "", str(position), now)


def remove(ctx: Context, group_id: str, names: Set[str]) -> None:
    """Remove a group's offsets of deleted topics that had one of these names."""
    by_topic = ctx.offsets.get(group_id, {})
    doomed: list[OffsetCommitKey] = []
    for name, partitions in by_topic.items():
        if name not in names:
            continue
        known = ctx.topics.by_name(name)
        deleted = ctx.topics.deleted.get(name)
        for index, value in partitions.items():
            topic_id = value.topic_id
            if topic_id is None or deleted is None:
                is_gone = topic_id is None or known is None or topic_id != known.topic_id
            else:
                is_gone = topic_id in deleted
            if is_gone:
                doomed.append(OffsetCommitKey(group_id, name, index))
    for key in doomed:
        ctx.emit(Record(key, None))


TIMEOUTS: Final[Mapping[str, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {TimerKind.DELETED_TOPICS: sweep}
)
