"""Share state of deleted topics, of any group: also of one that brokers wrote and no group has.

The leader removes it when it hears of the deletion; a partition that had no leader then catches up
after the next election. In both cases it does so slice by slice.
"""

from __future__ import annotations

from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from uuid import UUID

from protocol.groups.share_state import store
from protocol.groups.share_state.store import SharePartition
from protocol.groups.timers import TimerKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set

    from protocol.groups.context import Context
    from protocol.groups.timers import TimerKey
    from protocol.groups.topics import Topics

SLICE_GROUPS: Final = 200
"""Groups checked per slice: heartbeats in between must not wait."""


def elected(ctx: Context, now: int) -> None:
    """Begin to remove what earlier leaders have not removed."""
    if ctx.topics.deleted and ctx.share_states:
        ctx.timers.set(TimerKind.SHARE_STATE_TOPICS, "", "", now)


def topics_changed(ctx: Context, before: Topics) -> None:
    """Begin to remove the share state of topics that were deleted just now."""
    is_leader = ctx.elected_ms is not None
    if is_leader and ctx.share_states and ctx.topics.deleted_since(before):
        ctx.timers.set(TimerKind.SHARE_STATE_TOPICS, "", "", 0)


def sweep(ctx: Context, key: TimerKey, now: int) -> None:
    """Check one slice of the groups; the timer's member id says where it begins."""
    position = int(key.member_id or 0)
    gone = frozenset[UUID]().union(*ctx.topics.deleted.values())
    for group_id in list(islice(ctx.share_states, position, position + SLICE_GROUPS)):
        ctx.contain(group_id, "topics deleted", _remove, ctx, group_id, gone)
        position += group_id in ctx.share_states  # when one is gone, those behind it move up
    if position < len(ctx.share_states):
        ctx.timers.set(TimerKind.SHARE_STATE_TOPICS, "", str(position), now)


def _remove(ctx: Context, group_id: str, gone: Set[UUID]) -> None:
    for topic_id, index in list(ctx.share_states.get(group_id, ())):
        if topic_id in gone:
            store.remove(ctx, SharePartition(group_id, topic_id, index))


TIMEOUTS: Final[Mapping[str, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {TimerKind.SHARE_STATE_TOPICS: sweep}
)
