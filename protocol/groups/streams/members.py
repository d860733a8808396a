"""The member that a heartbeat is from: which requests may join or go on, under which id and epoch.

Static members are those of consumer groups: see ``consumer.members``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.groups.group_type import edge_to
from protocol.groups.modern import members as modern_members
from protocol.groups.modern.hard_state import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from protocol.groups.streams.group import StreamsGroup, StreamsGroupMember
from protocol.groups.streams.requests import knows_all, owned_tasks

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.wire.streams_messages import StreamsGroupHeartbeatRequest


@dataclass(frozen=True, slots=True)
class StreamsMemberSlot:
    """The group and the member of a heartbeat; None: new ones.

    ``replaced`` is the static member whose place it takes, which is then also ``member``.
    """

    group: StreamsGroup | None
    member: StreamsGroupMember | None = None
    replaced: StreamsGroupMember | None = None


def find_slot(ctx: Context, message: StreamsGroupHeartbeatRequest, now: int) -> StreamsMemberSlot:
    """Find the group and member of a heartbeat; refuse an invalid one. Change nothing."""
    group_id, member_id, instance_id = message.group_id, message.member_id, message.instance_id
    is_joining = message.member_epoch == JOIN_EPOCH
    group = _find_group(ctx, group_id, now, may_make=is_joining)
    holder = None if group is None or instance_id is None else group.static_member(instance_id)
    if is_joining:
        if group is not None and holder is None and member_id not in group.members:
            modern_members.check_room(ctx, group)
        if holder is not None:
            return _join_static(group, holder, member_id)
        return StreamsMemberSlot(group, None if group is None else group.members.get(member_id))
    assert group is not None
    if instance_id is not None:
        member = modern_members.holding(ctx, group, member_id, instance_id, now)
    else:
        member = group.member(member_id)
    modern_members.check_epoch(
        StreamsGroup,
        member.assignment,
        message.member_epoch,
        lambda: owned_tasks(group, message) if knows_all(group, message) else None,
    )
    return StreamsMemberSlot(group, member)


def _find_group(ctx: Context, group_id: str, now: int, *, may_make: bool) -> StreamsGroup | None:
    """Return the group; None for a new one, which may replace an empty group of another type."""
    group = ctx.groups.get(group_id)
    if may_make and group is not None and not isinstance(group, StreamsGroup):
        edge = edge_to(ctx, group, StreamsGroup.type_name)
        if edge is not None and edge.plan is not None:
            edge.plan(ctx, group_id, now)  # raises unless the group has no members
            return None
    return modern_members.find_group(ctx, StreamsGroup, group_id, may_make=may_make)


def _join_static(
    group: StreamsGroup | None, holder: StreamsGroupMember, member_id: str
) -> StreamsMemberSlot:
    has_left = holder.assignment.epoch == STATIC_LEAVE_EPOCH
    if holder.member_id == member_id and not has_left:
        return StreamsMemberSlot(group, holder)
    if not has_left:
        raise modern_members.unreleased(holder, holder.instance_id or "", member_id)
    return StreamsMemberSlot(group, holder, replaced=holder)


def fill_slot(
    ctx: Context, group_id: str, slot: StreamsMemberSlot, member_id: str, now: int
) -> None:
    """Make room for a new group, or for a static member's successor."""
    group = ctx.groups.get(group_id)
    if group is not None and slot.group is None:
        modern_members.convert_group(ctx, StreamsGroup, group_id, None, now)
    if slot.replaced is not None:
        modern_members.take_place(ctx, group_id, slot.replaced, member_id, now)
