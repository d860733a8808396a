"""SyncGroup and Heartbeat: the requests of a member that has a generation."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.classic import answers, membership, rebalance, rebuild
from protocol.groups.classic.states import ClassicGroupState
from protocol.groups.timers import TimerKind
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import HeartbeatRequest, SyncGroupRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.classic.group import ClassicGroupMember, ClassicGroupRuntime
    from protocol.groups.context import Context
    from protocol.groups.effects import Request


def sync_group(ctx: Context, request: Request, now: int) -> None:
    """Park the request until the leader's SyncGroup brings the assignment, or answer at once."""
    message = request.message
    assert isinstance(message, SyncGroupRequest)
    if request.api_version >= 5 and (
        message.protocol_type is None or message.protocol_name is None
    ):
        raise KafkaError(ErrorCode.inconsistent_group_protocol)
    if not message.group_id:
        raise KafkaError(ErrorCode.invalid_group_id)
    group = rebuild.find(ctx, message.group_id, now)
    if group is None:
        raise KafkaError(ErrorCode.unknown_member_id)
    member = membership.find(ctx, group, (message.member_id, message.group_instance_id), now)
    _check_generation(group, message)
    state = group.state
    if state is ClassicGroupState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.rebalance_in_progress)
    _count_in(ctx, group, member)
    if state is ClassicGroupState.STABLE:
        ctx.reply(request.ticket, answers.synced(group, member), group.group_id)
        return
    membership.park_sync(ctx, group, member, request.ticket)
    if group.leader_id == member.member_id:
        assignments = {each.member_id: each.assignment for each in message.assignments}
        rebalance.complete_sync(ctx, group, assignments, now)


def _check_generation(group: ClassicGroupRuntime, message: SyncGroupRequest) -> None:
    if message.generation_id != group.generation:
        raise KafkaError(ErrorCode.illegal_generation)
    if message.protocol_type not in (None, group.protocol_type) or (
        message.protocol_name not in (None, group.protocol_name)
    ):
        raise KafkaError(ErrorCode.inconsistent_group_protocol)


def _count_in(ctx: Context, group: ClassicGroupRuntime, member: ClassicGroupMember) -> None:
    """Stop the sync timeout when the last member has asked for its assignment."""
    pending_sync = group.pending_sync
    pending_sync.pop(member.member_id, None)
    if not pending_sync:
        ctx.timers.cancel(TimerKind.SYNC, group.group_id, "")


def heartbeat(ctx: Context, request: Request, now: int) -> None:
    """Keep the member's session alive, and tell it when to rejoin."""
    message = request.message
    assert isinstance(message, HeartbeatRequest)
    group_id = message.group_id
    group = ctx.classic_runtime.get(group_id) or _find(ctx, group_id, now)
    member = membership.find(ctx, group, (message.member_id, message.group_instance_id), now)
    if message.generation_id != group.generation:
        raise KafkaError(ErrorCode.illegal_generation)
    if group.rebalance is None:
        member.session_deadline_ms = now + member.session_timeout_ms
        lease = membership.lease(group, member)
        ctx.reply(request.ticket, answers.HEARTBEATS[ErrorCode.none], group_id, lease)
        return
    membership.touch(ctx, group, member, now)
    is_joining = group.rebalance.phase is ClassicGroupState.PREPARING_REBALANCE
    code = ErrorCode.rebalance_in_progress if is_joining else ErrorCode.none
    ctx.reply(request.ticket, answers.HEARTBEATS[code], group_id)


def _find(ctx: Context, group_id: str, now: int) -> ClassicGroupRuntime:
    if not group_id:
        raise KafkaError(ErrorCode.invalid_group_id)
    group = rebuild.find(ctx, group_id, now)
    if group is None:
        raise KafkaError(ErrorCode.unknown_member_id)
    return group


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {SyncGroupRequest.__api_key__: sync_group, HeartbeatRequest.__api_key__: heartbeat}
)
