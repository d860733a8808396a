"""Replays of share groups: those of all modern groups, and their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from protocol.groups.modern.replay import Replays
from protocol.groups.share.group import ShareGroup
from protocol.groups.share.state_topics import StateTopics
from protocol.records import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from protocol.tables import merged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context

GROUPS: Final = Replays(ShareGroup)
"""Finds the group of a record, and has the replays that all modern types share."""


def replay_state_topics(
    ctx: Context,
    key: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
) -> None:
    """Apply the progress of the topics' share state; a tombstone means that there is none."""
    emitted, ctx.emitted = ctx.emitted, None
    if value is not None:
        is_known = emitted is not None and emitted[0] is value
        state = emitted[1] if emitted is not None and is_known else StateTopics.of(value)
        GROUPS.found(ctx, key.group_id).state_topics = state
        return
    group = GROUPS.find(ctx, key.group_id)
    if group is not None:
        group.state_topics = StateTopics()


REPLAYS: Final[Mapping[type, Callable[[Context, Any, Any], None]]] = merged(
    GROUPS.table(), {ShareGroupStatePartitionMetadataKey: replay_state_topics}
)
