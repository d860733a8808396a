"""Leaving a consumer group: permanently, temporarily, by an administrator, or by timeout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.classic import answers, membership
from protocol.groups.consumer.group import (
    KIND,
    ConsumerGroup,
    ConsumerGroupMember,
    consumer_group_of,
)
from protocol.groups.facts import MemberEventKind
from protocol.groups.modern import group as modern
from protocol.groups.modern import leave as modern_leave
from protocol.groups.modern import members as modern_members
from protocol.groups.modern.hard_state import STATIC_LEAVE_EPOCH
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import (
    NO_THROTTLE,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    LeaveGroupRequest,
    MemberIdentity,
    MemberResponse,
)

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.effects import Request


def leave(ctx: Context, request: Request, now: int) -> None:
    """Remove a member (epoch -1), or let a static one be away for its session timeout (-2)."""
    message = request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    runtime = modern.find(ctx, message.group_id, now)
    if runtime is None or runtime.group.kind is not KIND:
        what = "is not a consumer group" if message.group_id in ctx.groups else "not found"
        raise KafkaError(ErrorCode.group_id_not_found, f"Group {message.group_id} {what}.")
    group, instance_id = runtime.group, message.instance_id
    if instance_id is None:
        member = group.member(message.member_id)
    else:
        member = modern_members.holding(ctx, group, message.member_id, instance_id, now)
    if instance_id is not None and message.member_epoch == STATIC_LEAVE_EPOCH:
        modern_leave.leave_temporarily(ctx, runtime, member, now)
    else:
        modern_leave.remove(ctx, runtime, {member.member_id: None}, MemberEventKind.LEFT, now)
    answer = ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval=NO_THROTTLE,
    )
    ctx.reply(request.ticket, answer, message.group_id)


def leave_group(ctx: Context, request: Request, now: int) -> None:
    """Remove the members that a LeaveGroup names, as administrators do."""
    message = request.message
    assert isinstance(message, LeaveGroupRequest)
    runtime = modern.find(ctx, message.group_id, now)
    assert runtime is not None
    results: list[MemberResponse] = []
    doomed: dict[str, str | None] = {}
    for identity in message.members:
        try:
            member = _named(ctx, consumer_group_of(runtime), identity, now)
        except KafkaError as error:
            results.append(answers.left_member(identity, error.code))
            continue
        doomed[member.member_id] = membership.cut(identity.reason)
        results.append(answers.left_member(identity))
    if doomed:
        modern_leave.remove(ctx, runtime, doomed, MemberEventKind.LEFT, now)
    ctx.reply(request.ticket, answers.left(tuple(results)), message.group_id)


def _named(
    ctx: Context, group: ConsumerGroup, identity: MemberIdentity, now: int
) -> ConsumerGroupMember:
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    holder = group.static_member(instance_id)
    if holder is not None and not identity.member_id:
        return holder
    return modern_members.holding(ctx, group, identity.member_id, instance_id, now)
