"""Committed offsets of topics that were deleted, also while nobody led this partition.

A deletion reaches the leader as ``TopicsDeleted``. A partition that was without a leader then, or
whose leader died over it, makes up for it after the next election, slice by slice: the catalogue
remembers the ids of deleted topics. An id is proof; that a topic is unknown is none, for this
node's catalogue may be behind, and the topic one that others know already.
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
"""Groups looked at in one go: the heartbeats in between must not wait."""


def elected(ctx: Context, now: int) -> None:
    """Begin to look for what earlier leaders have not removed."""
    if ctx.topics.deleted and ctx.offsets:
        ctx.timers.set(TimerKind.DELETED_TOPICS, "", "", now)


def sweep(ctx: Context, key: TimerKey, now: int) -> None:
    """Look through one slice of the groups; the timer's member id says where it begins."""
    position = int(key.member_id or 0)
    names = ctx.topics.deleted.keys()
    for group_id in list(islice(ctx.offsets, position, position + SLICE_GROUPS)):
        ctx.contain(group_id, "topics deleted", remove, ctx, group_id, names)
        position += group_id in ctx.offsets  # those behind one that has gone move up
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
