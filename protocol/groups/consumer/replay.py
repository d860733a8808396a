"""Replays: how each record of a consumer group changes its hard state, on leader and standby alike.

Records of one group come in any order when a compacted log is read, so each stands for itself: a
member's assignment may be read before what the member says of itself.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.groups.consumer.group import (
    EMPTY_EPOCH,
    NO_STANDING,
    UNKNOWN_MEMBER,
    ArrivingTarget,
    ConsumerGroup,
    ResolvedRegex,
)
from protocol.groups.modern.assignment_records import read_current
from protocol.groups.modern.reconcile import MemberState, Standing
from protocol.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    encode_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kio.static.protocol import Entity

    from protocol.groups.context import Context


def find(ctx: Context, group_id: str) -> ConsumerGroup | None:
    """Find the consumer group of that id; None if there is none, or a group of another type."""
    group = ctx.groups.get(group_id)
    return group if isinstance(group, ConsumerGroup) else None


def _found(ctx: Context, group_id: str) -> ConsumerGroup:
    """Find the group, or let it be: whatever of another type has the id is gone already.

    All there may be is a classic group that was made up because offsets are committed.
    """
    group = ctx.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        group = ctx.groups[group_id] = ConsumerGroup(group_id)
    return group


def replay_metadata(
    ctx: Context, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
) -> None:
    """Apply a group epoch; a tombstone removes the group."""
    if value is not None:
        group = _found(ctx, key.group_id)
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash
    elif find(ctx, key.group_id) is not None:
        del ctx.groups[key.group_id]


def replay_member(
    ctx: Context,
    key: ConsumerGroupMemberMetadataKey,
    value: ConsumerGroupMemberMetadataValue | None,
) -> None:
    """Apply what a member says of itself; a tombstone removes the member."""
    if value is not None:
        _found(ctx, key.group_id).put_member(key.member_id, value)
        return
    group = find(ctx, key.group_id)
    if group is not None:
        group.remove_member(key.member_id)


def replay_target(
    ctx: Context, key: ConsumerGroupTargetAssignmentMemberKey, value: Entity | bytes | None
) -> None:
    """Apply a member's target assignment.

    While a new target is arriving it is built aside: only its metadata record puts it in force.
    """
    if value is None:
        group = find(ctx, key.group_id)
        if group is not None:
            group.targets.pop(key.member_id, None)
            if group.arriving is not None:
                group.arriving.targets.pop(key.member_id, None)
        return
    group = _found(ctx, key.group_id)
    targets = group.targets if group.arriving is None else group.arriving.targets
    targets[key.member_id] = _encoded(key, value)


def replay_target_metadata(
    ctx: Context,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    """Put a target assignment in force, or learn that the records of one are coming."""
    if value is None:
        group = find(ctx, key.group_id)
        if group is not None:
            group.assignment_epoch, group.assignment_timestamp_ms = EMPTY_EPOCH, 0
            group.arriving = None
        return
    group = _found(ctx, key.group_id)
    group.assignment_epoch = value.assignment_epoch
    group.assignment_timestamp_ms = value.assignment_timestamp
    arriving = group.arriving
    is_followed = arriving is not None and arriving.epoch == value.assignment_epoch
    if arriving is not None and (is_followed or not value.arriving_epoch):
        # Is followed: of the record that closes it and the one that opens the next, both in one
        # batch, only the last was written.
        group.targets.update(arriving.targets)
    group.arriving = ArrivingTarget(value.arriving_epoch) if value.arriving_epoch else None


def replay_current(
    ctx: Context, key: ConsumerGroupCurrentMemberAssignmentKey, value: Entity | bytes | None
) -> None:
    """Apply what a member has; a tombstone sets everything it had free."""
    group = find(ctx, key.group_id)
    if value is None:
        member = None if group is None else group.members.get(key.member_id)
        if group is not None and member is not None:
            group.put_standing(member, NO_STANDING)
        return
    group = _found(ctx, key.group_id)
    if key.member_id not in group.members:
        group.put_member(key.member_id, UNKNOWN_MEMBER)
    emitted, ctx.emitted = ctx.emitted, None
    if emitted is not None and emitted[0] is value:
        standing = emitted[1]
    else:
        current = read_current(_encoded(key, value), ctx.numbers)
        epoch, previous, state, assigned, revoking = current
        standing = Standing(epoch, previous, MemberState(state), assigned, revoking)
    group.put_standing(group.members[key.member_id], standing)


def replay_regex(
    ctx: Context,
    key: ConsumerGroupRegularExpressionKey,
    value: ConsumerGroupRegularExpressionValue | None,
) -> None:
    """Apply what a regular expression matches."""
    if value is not None:
        resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        _found(ctx, key.group_id).put_regex(key.regular_expression, resolved)
        return
    group = find(ctx, key.group_id)
    if group is not None:
        group.put_regex(key.regular_expression, None)


def replay_partition_metadata(
    _ctx: Context, _key: ConsumerGroupPartitionMetadataKey, _value: object
) -> None:
    """Pass over what Kafka before 4.1 wrote; the metadata hash has taken its place."""


def _encoded(key: Entity, value: Entity | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    encoded = encode_value(key, value)
    assert encoded is not None
    return encoded


REPLAYS: Final[Mapping[type, Callable[[Context, Any, Any], None]]] = MappingProxyType(
    {
        ConsumerGroupMetadataKey: replay_metadata,
        ConsumerGroupPartitionMetadataKey: replay_partition_metadata,
        ConsumerGroupMemberMetadataKey: replay_member,
        ConsumerGroupTargetAssignmentMetadataKey: replay_target_metadata,
        ConsumerGroupTargetAssignmentMemberKey: replay_target,
        ConsumerGroupCurrentMemberAssignmentKey: replay_current,
        ConsumerGroupRegularExpressionKey: replay_regex,
    }
)
