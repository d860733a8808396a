"""The place of a member in its group: who may take it, under which member id and epoch.

======== ================= ========================================================================
epoch    instance id       answer
======== ================= ========================================================================
0        none              joins, or joins again under its member id
0        free              joins as a static member
0        of this member    joins again: the answer to its first join was lost
0        of another        takes its place if that one has left for a while (epoch -2), is a
                           classic member, or if the group allows it; else UNRELEASED_INSTANCE_ID
above 0  none              UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, or on with it
above 0  not known         UNKNOWN_MEMBER_ID
above 0  of another        FENCED_INSTANCE_ID
======== ================= ========================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from protocol.groups import diary
from protocol.groups import settings as group_settings
from protocol.groups.consumer.group import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
)
from protocol.groups.consumer.requests import names_only, owned_partitions
from protocol.groups.facts import MemberEventKind
from protocol.groups.group_type import edge_to
from protocol.groups.modern import group as modern
from protocol.groups.modern import target
from protocol.groups.modern.assignment_records import CurrentAssignment, write_current, write_owned
from protocol.groups.modern.reconcile import MemberState, Standing
from protocol.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    Record,
)
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.modern.runtime import ModernRuntime
    from protocol.wire.messages import ConsumerGroupHeartbeatRequest

MAX_SIZE: Final = "group.consumer.max.size"
TAKEOVER: Final = "consumer.static.takeover.enable"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a heartbeat's member stands.

    ``group`` is None for a group that is to be, and a picture of what it would become for a group
    of another type; ``member`` is None for a member that is to be.
    ``replaced`` is the static member whose place it takes, which is then also ``member``: what it
    said of itself still holds.
    """

    group_id: str
    group: ConsumerGroup | None
    member: ConsumerMember | None = None
    replaced: ConsumerMember | None = None


def find_place(ctx: Context, message: ConsumerGroupHeartbeatRequest, now: int) -> Place:
    """Find out who speaks; refuse who may not. Nothing is changed."""
    group_id, member_id = message.group_id, message.member_id
    group = _find_group(ctx, message, now)
    instance_id = message.instance_id
    holder = None if group is None or instance_id is None else group.static_member(instance_id)
    if group is not None and holder is None and member_id not in group.members:
        check_room(ctx, group)
    if instance_id is not None and message.member_epoch == JOIN_EPOCH and holder is not None:
        return _join_static(ctx, group_id, group, holder, member_id)
    if message.member_epoch == JOIN_EPOCH:
        return Place(group_id, group, None if group is None else group.members.get(member_id))
    assert group is not None
    if instance_id is not None:
        member = holding(ctx, group, member_id, instance_id, now)
    else:
        member = group.member(member_id)
    _check_epoch(ctx, member, message)
    return Place(group_id, group, member)


def _find_group(
    ctx: Context, message: ConsumerGroupHeartbeatRequest, now: int
) -> ConsumerGroup | None:
    """Find the group; one that joins may make it, in the place of a group of another type.

    One without members is replaced whatever the policy, even if a rebalance of it is under way; of
    one with members what it would become is given.
    """
    group_id = message.group_id
    group = ctx.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    is_joining = message.member_epoch == JOIN_EPOCH
    if group is None:
        if is_joining:
            return None
        raise KafkaError(ErrorCode.group_id_not_found, f"Consumer group {group_id} not found.")
    edge = edge_to(ctx, group, ConsumerGroup.type_name)
    if edge is None or edge.plan is None or not is_joining:
        sentence = f"Group {group_id} is not a consumer group."
        raise KafkaError(ErrorCode.group_id_not_found, sentence)
    planned = edge.plan(ctx, group_id, now)
    assert planned is None or isinstance(planned, ConsumerGroup)
    return planned


def check_room(ctx: Context, group: ConsumerGroup) -> None:
    """Refuse one more member than may be in a consumer group."""
    most = ctx.configs.integer(MAX_SIZE)
    if len(group.members) >= most:
        raise KafkaError(
            ErrorCode.group_max_size_reached,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )


def _join_static(
    ctx: Context,
    group_id: str,
    group: ConsumerGroup | None,
    holder: ConsumerMember,
    member_id: str,
) -> Place:
    has_left = holder.standing.epoch == STATIC_LEAVE_EPOCH
    if holder.member_id == member_id and not has_left:
        return Place(group_id, group, holder)
    is_released = has_left or holder.is_classic
    if not is_released and not group_settings.is_set(ctx, group_id, TAKEOVER):
        raise KafkaError(
            ErrorCode.unreleased_instance_id,
            f"Static member {member_id} with instance id {holder.metadata.instance_id} cannot join"
            f" the group because the instance id is owned by {holder.member_id} member.",
        )
    return Place(group_id, group, holder, replaced=holder)


def holding(
    ctx: Context, group: ConsumerGroup, member_id: str, instance_id: str, now: int
) -> ConsumerMember:
    """Find the member that holds an instance id; anybody else is fenced."""
    holder = group.static_member(instance_id)
    if holder is None:
        raise KafkaError(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        live = ctx.modern.get(group.group_id)
        if live is not None:
            zombie = diary.fenced(group.group_id, member_id, instance_id, now)
            live.diary.note_fenced(ctx, zombie)
        raise KafkaError(
            ErrorCode.fenced_instance_id,
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {holder.member_id}.",
        )
    return holder


def _check_epoch(
    ctx: Context, member: ConsumerMember, message: ConsumerGroupHeartbeatRequest
) -> None:
    """Let the present epoch pass, and the one before it if the answer may have been lost."""
    known, received = member.standing, message.member_epoch
    if received == known.epoch:
        return
    if received < known.epoch and received == known.previous_epoch:
        owned = owned_partitions(ctx, message)
        if owned is not None and names_only(ctx, message) and owned <= known.assigned.keys():
            return
    size = "greater" if received > known.epoch else "smaller"
    raise KafkaError(
        ErrorCode.fenced_member_epoch,
        f"The consumer group member has a {size} member epoch ({received}) than the one known by"
        f" the group coordinator ({known.epoch}). The member must abandon all its partitions and"
        " rejoin.",
    )


def take_place(ctx: Context, place: Place, member_id: str, now: int) -> None:
    """Make way: for a new group, and for a static member's successor."""
    group = ctx.groups.get(place.group_id)
    if group is not None and group is not place.group:
        edge = edge_to(ctx, group, ConsumerGroup.type_name)
        assert edge is not None
        assert edge.convert is not None
        edge.convert(ctx, place.group_id, place.group, now)
    if place.replaced is not None:
        live = modern.find(ctx, place.group_id, now)
        assert live is not None
        replace_member(ctx, live, place.replaced, member_id, now)


def replace_member(
    ctx: Context, live: ModernRuntime, old: ConsumerMember, member_id: str, now: int
) -> None:
    """Give a static member's place to its successor: what it said, its target and its partitions.

    Nothing else in the group changes: that is what static members are for (KIP-345).
    """
    target.deliver_all(ctx, live, now)
    group, old_id = live.group, old.member_id
    metadata, goal = old.metadata, group.targets.get(old_id)
    standing = Standing(
        JOIN_EPOCH, JOIN_EPOCH, MemberState.STABLE, dict.fromkeys(old.standing.assigned, 0), {}
    )
    if old_id == member_id:
        emit_standing(ctx, group.group_id, member_id, standing)
        return
    emit_tombstones(ctx, group.group_id, old_id)
    modern.drop_session(ctx, live, old_id)
    group_id = group.group_id
    ctx.emit(Record(ConsumerGroupMemberMetadataKey(group_id, member_id), metadata))
    if goal is not None:
        ctx.emit(Record(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), goal))
    emit_standing(ctx, group_id, member_id, standing)
    live.feed.member_gone(old_id, member_id)
    live.feed.member_changed(member_id)
    if live.run is not None:
        live.run.replaced(old_id, member_id)
    event = modern.event(live, group.members[member_id], MemberEventKind.REPLACED, now)
    live.diary.note(ctx, replace(event, previous_member_id=old_id))


def emit_standing(ctx: Context, group_id: str, member_id: str, standing: Standing) -> None:
    """Write what a member has now."""
    current = CurrentAssignment(
        standing.epoch,
        standing.previous_epoch,
        standing.state,
        standing.assigned,
        standing.revoking,
    )
    group = ctx.groups[group_id]
    assert isinstance(group, ConsumerGroup)
    member = group.members[member_id]
    if member.written is None or member.written[0] is not standing.assigned:
        member.written = (standing.assigned, write_owned(standing.assigned, ctx.numbers))
    value = write_current(current, ctx.numbers, member.written[1])
    ctx.emitted = (value, standing)
    ctx.emit(Record(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), value))
    goal, has = member.goal, standing.assigned.keys()
    if goal is not None and goal[1] == has:
        member.goal = (goal[0], has)  # it need not be kept twice


def emit_tombstones(ctx: Context, group_id: str, member_id: str) -> None:
    """Remove a member from the log: what it has, what it should have, what it said."""
    for key in (
        ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id),
        ConsumerGroupTargetAssignmentMemberKey(group_id, member_id),
        ConsumerGroupMemberMetadataKey(group_id, member_id),
    ):
        ctx.emit(Record(key, None))
