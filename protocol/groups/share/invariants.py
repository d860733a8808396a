"""The invariants of a shard's share groups, in addition to those of all modern groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.share.group import ShareGroup
from protocol.groups.timers import TimerKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.groups.context import Context


def broken(ctx: Context) -> Iterator[str]:
    """Return every invariant that does not hold."""
    for group_id, group in ctx.groups.items():
        if isinstance(group, ShareGroup):
            yield from (f"{group_id}: {sentence}" for sentence in _state(group))
    for group_id, runtime in ctx.modern_runtime.items():
        group = runtime.group
        if isinstance(group, ShareGroup) and group.members and not runtime.unarmed:
            waits = ctx.timers.deadline(TimerKind.SHARE_STATE, group_id, "") is not None
            if group.state_topics.initializing and not waits:
                yield f"{group_id}: share state is awaited without a timer"


def _state(group: ShareGroup) -> Iterator[str]:
    state = group.state_topics
    for topic_id, topic in state.initializing.items():
        known = state.initialized.get(topic_id)
        if known is not None and known.partitions & topic.partitions:
            yield "a partition is both initializing and initialized"
    if state.deleting.keys() & (state.initializing.keys() | state.initialized.keys()):
        yield "a topic is both deleted and initialized"
    if group.holders:
        yield "a partition of a share group has a holder of its own"
