"""Leaving a streams group: permanently, or for a while as a static member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.facts import MemberEventKind
from protocol.groups.modern import group as modern
from protocol.groups.modern import leave as modern_leave
from protocol.groups.modern import members as modern_members
from protocol.groups.modern.hard_state import STATIC_LEAVE_EPOCH
from protocol.groups.streams.group import StreamsGroup
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.streams_messages import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.effects import Request


def leave(ctx: Context, request: Request, now: int) -> None:
    """Remove a member (epoch -1), or let a static one be away for its session timeout (-2)."""
    message = request.message
    assert isinstance(message, StreamsGroupHeartbeatRequest)
    group, instance_id = ctx.groups.get(message.group_id), message.instance_id
    if not isinstance(group, StreamsGroup):
        what = "not found" if group is None else "is not a streams group"
        raise KafkaError(ErrorCode.group_id_not_found, f"Group {message.group_id} {what}.")
    if instance_id is None:
        member = group.member(message.member_id)
    else:
        member = modern_members.holding(ctx, group, message.member_id, instance_id, now)
    runtime = modern.find(ctx, message.group_id, now)
    assert runtime is not None
    if message.shutdown_application and runtime.own.shutdown_member_id is None:
        runtime.own.shutdown_member_id = member.member_id
        runtime.end_leases()
    if message.member_epoch == STATIC_LEAVE_EPOCH:
        modern_leave.leave_temporarily(ctx, runtime, member, now)
    else:
        modern_leave.remove(ctx, runtime, {member.member_id: None}, MemberEventKind.LEFT, now)
    response = blank(
        StreamsGroupHeartbeatResponse,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        status=(),
    )
    ctx.reply(request.ticket, response, message.group_id)
