"""Share state of a group's partitions: created and removed for the group.

The share state is in the group's own partition of the log, so what is created here is committed
together with the group's record that says so (``docs/decisions/share-state.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.share_state import store
from protocol.groups.share_state.store import NO_START_OFFSET, SharePartition
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from protocol.groups.context import Context
    from protocol.groups.share.group import ShareGroup


def initialize(
    ctx: Context, group: ShareGroup, partitions: Iterable[tuple[UUID, int]], now: int
) -> list[tuple[UUID, int]]:
    """Create the share state of partitions; return those that have it now."""
    done = []
    for topic_id, index in partitions:
        share = SharePartition(group.group_id, topic_id, index)
        try:
            store.initialize(ctx, share, group.epoch, NO_START_OFFSET, now)
        except KafkaError:
            continue  # the topic is gone, or newer share state is there: it is asked for again
        done.append((topic_id, index))
    return done


def remove_topics(ctx: Context, group_id: str, topic_ids: Iterable[UUID]) -> None:
    """Remove the share state of topics."""
    gone = frozenset(topic_ids)
    _remove(ctx, group_id, [each for each in _held(ctx, group_id) if each[0] in gone])


def remove_all(ctx: Context, group_id: str) -> None:
    """Remove all share state of a group that is being deleted."""
    _remove(ctx, group_id, _held(ctx, group_id))


def _held(ctx: Context, group_id: str) -> list[tuple[UUID | None, int]]:
    return list(ctx.share_states.get(group_id, ()))


def _remove(ctx: Context, group_id: str, partitions: Iterable[tuple[UUID | None, int]]) -> None:
    for topic_id, index in partitions:
        store.remove(ctx, SharePartition(group_id, topic_id, index))
