"""SyncGroup and Heartbeat of a classic member in a consumer group, and its three timeouts.

===================== =========================================================================
must rejoin           removed unless it does so within its rebalance timeout
has joined            removed unless it fetches its assignment within its rebalance timeout
is steady             heartbeats within its own session timeout
===================== =========================================================================
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.classic import answers
from protocol.groups.classic.group import CONSUMER
from protocol.groups.consumer.group import consumer_group_of
from protocol.groups.facts import MemberEventKind
from protocol.groups.migration.downgrade import assignment_of
from protocol.groups.modern import group as modern
from protocol.groups.modern import leave as modern_leave
from protocol.groups.modern import members as modern_members
from protocol.groups.modern import target
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.timers import TimerKind
from protocol.wire.embedded import version_of
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import (
    NO_THROTTLE,
    HeartbeatRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.consumer.group import ConsumerGroup, ConsumerGroupMember
    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.timers import TimerKey


def sync_group(ctx: Context, request: Request, now: int) -> None:
    """Return a classic member's current assignment; it never waits for other members."""
    message = request.message
    assert isinstance(message, SyncGroupRequest)
    if request.api_version >= 5 and (
        message.protocol_type is None or message.protocol_name is None
    ):
        raise KafkaError(ErrorCode.inconsistent_group_protocol)
    runtime = modern.find(ctx, message.group_id, now)
    assert runtime is not None
    group = consumer_group_of(runtime)
    member = _speaker(ctx, group, message, now)
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    protocol = classic.supported_protocols[0]
    if message.protocol_type not in (None, CONSUMER) or (
        message.protocol_name not in (None, protocol.name)
    ):
        raise KafkaError(ErrorCode.inconsistent_group_protocol)
    assignment = member.assignment
    if assignment.epoch < group.assignment_epoch and (
        assignment.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        _await_join(ctx, runtime, member, now)
        raise KafkaError(ErrorCode.rebalance_in_progress)
    ctx.timers.cancel(TimerKind.MEMBER_SYNC, runtime.group_id, member.member_id)
    session = modern.session_of(ctx, runtime, member.member_id, now)
    modern.arm(ctx, runtime, session, now + session.session_timeout_ms)
    version = version_of(protocol.metadata)
    answer = SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        assignment=assignment_of(ctx, member, assignment.assigned, version),
    )
    ctx.reply(request.ticket, answer, runtime.group_id)


def heartbeat(ctx: Context, request: Request, now: int) -> None:
    """Keep a classic member's session alive, and tell it when it has to rejoin."""
    message = request.message
    assert isinstance(message, HeartbeatRequest)
    runtime = modern.find(ctx, message.group_id, now)
    assert runtime is not None
    group = consumer_group_of(runtime)
    member = _speaker(ctx, group, message, now)
    session = modern.session_of(ctx, runtime, member.member_id, now)
    modern.arm(ctx, runtime, session, now + session.session_timeout_ms)
    if _must_join(ctx, group, member):
        _await_join(ctx, runtime, member, now)
        answer = answers.HEARTBEATS[ErrorCode.rebalance_in_progress]
        ctx.reply(request.ticket, answer, runtime.group_id)
        return
    is_steady = member.assignment.state is MemberState.STABLE
    lease = modern.lease(session) if is_steady else None
    ctx.reply(request.ticket, answers.HEARTBEATS[ErrorCode.none], runtime.group_id, lease)


def _speaker(
    ctx: Context, group: ConsumerGroup, message: SyncGroupRequest | HeartbeatRequest, now: int
) -> ConsumerGroupMember:
    """Return the classic member of a request, whose generation must be its member epoch."""
    if message.group_instance_id is None:
        member = group.member(message.member_id)
    else:
        ids = (message.member_id, message.group_instance_id)
        member = modern_members.holding(ctx, group, *ids, now)
    if not member.is_classic:
        raise KafkaError(ErrorCode.unknown_member_id)
    if message.generation_id != member.assignment.epoch:
        raise KafkaError(ErrorCode.illegal_generation)
    return member


def _must_join(ctx: Context, group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Whether a target is newer, or there are partitions to revoke or free to take."""
    assignment = member.assignment
    if assignment.epoch < group.assignment_epoch:
        return True
    if assignment.state is MemberState.UNRELEASED_PARTITIONS:
        wanted = target.of_member(ctx, group, member) - assignment.assigned.keys()
        return group.holders.keys().isdisjoint(wanted)
    return assignment.state is not MemberState.STABLE


def _await_join(
    ctx: Context, runtime: ModernGroupRuntime, member: ConsumerGroupMember, now: int
) -> None:
    """Start the member's rebalance timeout for rejoining, when it is first told to rejoin."""
    kind, group_id, member_id = TimerKind.MEMBER_JOIN, runtime.group_id, member.member_id
    if ctx.timers.deadline(kind, group_id, member_id) is None:
        deadline_ms = now + max(member.metadata.rebalance_timeout_ms, 0)
        ctx.timers.set(kind, group_id, member_id, deadline_ms)


def join_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Remove a classic member that did not rejoin in time."""
    _remove(ctx, key, MemberEventKind.NOT_REJOINED, now)


def sync_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Remove a classic member that did not fetch its assignment in time."""
    _remove(ctx, key, MemberEventKind.NOT_SYNCED, now)


def _remove(ctx: Context, key: TimerKey, kind: MemberEventKind, now: int) -> None:
    runtime = ctx.modern_runtime.get(key.group_id)
    if runtime is not None and key.member_id in runtime.group.members:
        modern_leave.remove(ctx, runtime, {key.member_id: None}, kind, now)


TIMEOUTS: Final[Mapping[str, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {TimerKind.MEMBER_JOIN: join_timeout, TimerKind.MEMBER_SYNC: sync_timeout}
)
