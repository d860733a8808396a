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
    if value is not None:
        GROUPS.found(ctx, key.group_id).state_topics = StateTopics.of(value)
        return
    group = GROUPS.find(ctx, key.group_id)
    if group is not None:
        group.state_topics = StateTopics()


REPLAYS: Final[Mapping[type, Callable[[Context, Any, Any], None]]] = merged(
    GROUPS.table(), {ShareGroupStatePartitionMetadataKey: replay_state_topics}
)
