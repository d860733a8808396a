"""The share coordinator's part of a shard, and a table of contents of this package.

============ =====================================================================================
``state``    the share state of one partition: a snapshot and its changes; ``batches`` combined
``store``    what may be done with it, and the records
``requests`` the requests of brokers (83 to 87)
============ =====================================================================================

The share state of a group's partitions is in the group's partition of the log. That of topics that
were deleted is removed (``deleted_topics``); what a group has of them, the group removes itself
(``share.initialization``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from protocol.groups.group_type import ShardPart
from protocol.groups.share_state import deleted_topics
from protocol.groups.share_state.requests import HANDLERS
from protocol.groups.share_state.state import ShareState
from protocol.records import ShareSnapshotKey, ShareUpdateKey

if TYPE_CHECKING:
    from protocol.groups.context import Context


def _replay_snapshot(ctx: Context, key: ShareSnapshotKey, value: Any) -> None:
    _put(ctx, key, _found(ctx, key).with_snapshot(value))


def _replay_update(ctx: Context, key: ShareUpdateKey, value: Any) -> None:
    _put(ctx, key, _found(ctx, key).with_update(value))


def _found(ctx: Context, key: ShareSnapshotKey | ShareUpdateKey) -> ShareState:
    states = ctx.share_states.get(key.group_id, {})
    return states.get((key.topic_id, key.partition)) or ShareState()


def _put(ctx: Context, key: ShareSnapshotKey | ShareUpdateKey, state: ShareState) -> None:
    place = (key.topic_id, key.partition)
    if state.snapshot is not None or state.update is not None:
        ctx.share_states.setdefault(key.group_id, {})[place] = state
        return
    states = ctx.share_states.get(key.group_id)
    if states is not None:
        states.pop(place, None)
        if not states:
            del ctx.share_states[key.group_id]


def _forget(ctx: Context, group_id: str) -> None:
    ctx.share_states.pop(group_id, None)


PART: Final = ShardPart(
    name="share state",
    handlers=HANDLERS,
    replays={ShareSnapshotKey: _replay_snapshot, ShareUpdateKey: _replay_update},
    timeouts=deleted_topics.TIMEOUTS,
    elected=deleted_topics.elected,
    topics_changed=deleted_topics.topics_changed,
    forget=_forget,
)
