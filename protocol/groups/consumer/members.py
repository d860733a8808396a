"""The member that a heartbeat is from: which requests may join or go on, under which id and epoch.

======== ================= ========================================================================
epoch    instance id       answer
======== ================= ========================================================================
0        none              joins, or rejoins under its member id
0        free              joins as a static member
0        of this member    rejoins: the answer to its first join was lost
0        of another        takes its place if that one has left temporarily (epoch -2), is a
                           classic member, or if the group allows it; else UNRELEASED_INSTANCE_ID
above 0  none              UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, or continues
above 0  not known         UNKNOWN_MEMBER_ID
above 0  of another        FENCED_INSTANCE_ID
======== ================= ========================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from protocol.groups import settings as group_settings
from protocol.groups.consumer.group import ConsumerGroup, ConsumerGroupMember
from protocol.groups.consumer.requests import names_only, owned_partitions
from protocol.groups.group_type import edge_to
from protocol.groups.modern import members as modern_members
from protocol.groups.modern.hard_state import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.wire.messages import ConsumerGroupHeartbeatRequest

TAKEOVER: Final = "consumer.static.takeover.enable"


@dataclass(frozen=True, slots=True)
class MemberSlot:
    """The group and the member of a heartbeat.

    ``group`` is None for a group to be created; for a group of another type it is a plan of what
    the group would become. ``member`` is None for a new member. ``replaced`` is the static member
    whose place it takes, which is then also ``member``: its metadata still holds.
    """

    group_id: str
    group: ConsumerGroup | None
    member: ConsumerGroupMember | None = None
    replaced: ConsumerGroupMember | None = None


def find_slot(ctx: Context, message: ConsumerGroupHeartbeatRequest, now: int) -> MemberSlot:
    """Find the group and member of a heartbeat; refuse an invalid one. Change nothing."""
    group_id, member_id = message.group_id, message.member_id
    group = _find_group(ctx, message, now)
    instance_id = message.instance_id
    holder = None if group is None or instance_id is None else group.static_member(instance_id)
    if group is not None and holder is None and member_id not in group.members:
        modern_members.check_room(ctx, group)
    if instance_id is not None and message.member_epoch == JOIN_EPOCH and holder is not None:
        return _join_static(ctx, group_id, group, holder, member_id)
    if message.member_epoch == JOIN_EPOCH:
        return MemberSlot(group_id, group, None if group is None else group.members.get(member_id))
    assert group is not None
    if instance_id is not None:
        member = modern_members.holding(ctx, group, member_id, instance_id, now)
    else:
        member = group.member(member_id)
    modern_members.check_epoch(
        ConsumerGroup,
        member.assignment,
        message.member_epoch,
        lambda: owned_partitions(ctx, message) if names_only(ctx, message) else None,
    )
    return MemberSlot(group_id, group, member)


def _find_group(
    ctx: Context, message: ConsumerGroupHeartbeatRequest, now: int
) -> ConsumerGroup | None:
    """Return the group; a joining member may create it, or replace a group of another type.

    A group without members is replaced whatever the policy, even during a rebalance. For a group
    with members, return the plan of what it would become.
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


def _join_static(
    ctx: Context,
    group_id: str,
    group: ConsumerGroup | None,
    holder: ConsumerGroupMember,
    member_id: str,
) -> MemberSlot:
    has_left = holder.assignment.epoch == STATIC_LEAVE_EPOCH
    if holder.member_id == member_id and not has_left:
        return MemberSlot(group_id, group, holder)
    is_released = has_left or holder.is_classic
    if not is_released and not group_settings.is_set(ctx, group_id, TAKEOVER):
        raise modern_members.unreleased(holder, holder.metadata.instance_id or "", member_id)
    return MemberSlot(group_id, group, holder, replaced=holder)


def fill_slot(ctx: Context, slot: MemberSlot, member_id: str, now: int) -> None:
    """Make room for a new group, or for a static member's successor."""
    group = ctx.groups.get(slot.group_id)
    if group is not None and group is not slot.group:
        modern_members.convert_group(ctx, ConsumerGroup, slot.group_id, slot.group, now)
    if slot.replaced is not None:
        modern_members.take_place(ctx, slot.group_id, slot.replaced, member_id, now)
