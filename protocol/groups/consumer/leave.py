"""Leaving a consumer group: willingly, for a while, by an administrator's hand, or not heard of."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.classic import answers, membership
from protocol.groups.consumer import members as consumer_members
from protocol.groups.consumer.group import STATIC_LEAVE_EPOCH, ConsumerGroup, ConsumerMember
from protocol.groups.facts import MemberEventKind
from protocol.groups.group_type import edge_when_leaving
from protocol.groups.modern import group as modern
from protocol.groups.modern import regexes, target
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.timers import TimerKind
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
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.modern.runtime import ModernRuntime
    from protocol.groups.timers import TimerKey


def leave(ctx: Context, request: Request, now: int) -> None:
    """Let a member go (epoch -1), or a static member for as long as its session lasts (-2)."""
    message = request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    live = modern.find(ctx, message.group_id, now)
    if live is None:
        what = "is not a consumer group" if message.group_id in ctx.groups else "not found"
        raise KafkaError(ErrorCode.group_id_not_found, f"Group {message.group_id} {what}.")
    group, instance_id = live.group, message.instance_id
    if instance_id is None:
        member = group.member(message.member_id)
    else:
        member = consumer_members.holding(ctx, group, message.member_id, instance_id, now)
    if instance_id is not None and message.member_epoch == STATIC_LEAVE_EPOCH:
        _go_for_a_while(ctx, live, member, now)
    else:
        remove(ctx, live, {member.member_id: None}, MemberEventKind.LEFT, now)
    answer = ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval=NO_THROTTLE,
    )
    ctx.reply(request.ticket, answer, message.group_id)


def _go_for_a_while(ctx: Context, live: ModernRuntime, member: ConsumerMember, now: int) -> None:
    """Keep a static member's partitions for it; what it was giving up is free at once."""
    standing = replace(
        member.standing,
        epoch=STATIC_LEAVE_EPOCH,
        assigned=dict.fromkeys(member.standing.assigned, 0),
        revoking={},
    )
    session = modern.session_of(ctx, live, member.member_id, now)
    session.stamp += 1
    session.answer = None
    ctx.timers.cancel(TimerKind.REVOCATION, live.group_id, member.member_id)
    consumer_members.emit_standing(ctx, live.group_id, member.member_id, standing)
    live.diary.note(ctx, modern.event(live, member, MemberEventKind.WENT, now))


def remove(
    ctx: Context,
    live: ModernRuntime,
    members: Mapping[str, str | None],
    kind: MemberEventKind,
    now: int,
) -> None:
    """Remove members, each for a reason of its client's, and begin one new group epoch.

    The group may become one of another type by that (online migration).
    """
    group = live.group
    edge = edge_when_leaving(ctx, group, members)
    if edge is not None and edge.convert_without is not None:
        for member_id, reason in members.items():
            event = modern.event(live, group.members[member_id], kind, now)
            live.diary.note(ctx, replace(event, reason=reason))
        edge.convert_without(ctx, live, members, now)
        return
    first = None
    for member_id, reason in members.items():
        event = replace(modern.event(live, group.members[member_id], kind, now), reason=reason)
        consumer_members.emit_tombstones(ctx, group.group_id, member_id)
        modern.drop_session(ctx, live, member_id)
        live.feed.member_gone(member_id)
        live.diary.note(ctx, event)
        first = first or event
    regexes.drop_unused(ctx, group)
    modern.bump(ctx, live, first, now)
    modern.tell_if_settled(ctx, live, now)
    target.update(ctx, live, now)


def session_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Remove a member that was not heard of in time."""
    live = ctx.modern.get(key.group_id)
    session = None if live is None else live.sessions.get(key.member_id)
    if live is None or session is None:
        return
    if session.session_deadline_ms > now:
        modern.arm(ctx, live, session, session.session_deadline_ms)
        return
    remove(ctx, live, {key.member_id: None}, MemberEventKind.EXPIRED, now)


def revocation_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Remove a member that has not given up its partitions in time."""
    live = ctx.modern.get(key.group_id)
    member = None if live is None else live.group.members.get(key.member_id)
    if live is None or member is None:
        return
    standing = member.standing
    if standing.state is MemberState.UNREVOKED_PARTITIONS and standing.epoch >= 0:
        remove(ctx, live, {key.member_id: None}, MemberEventKind.NOT_REVOKED, now)


def leave_group(ctx: Context, request: Request, now: int) -> None:
    """Remove the members that a LeaveGroup names, as an administrator does."""
    message = request.message
    assert isinstance(message, LeaveGroupRequest)
    live = modern.find(ctx, message.group_id, now)
    assert live is not None
    results: list[MemberResponse] = []
    doomed: dict[str, str | None] = {}
    for identity in message.members:
        try:
            member = _named(ctx, live.group, identity, now)
        except KafkaError as error:
            results.append(answers.left_member(identity, error.code))
            continue
        doomed[member.member_id] = membership.cut(identity.reason)
        results.append(answers.left_member(identity))
    if doomed:
        remove(ctx, live, doomed, MemberEventKind.LEFT, now)
    ctx.reply(request.ticket, answers.left(tuple(results)), message.group_id)


def _named(
    ctx: Context, group: ConsumerGroup, identity: MemberIdentity, now: int
) -> ConsumerMember:
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    holder = group.static_member(instance_id)
    if holder is not None and not identity.member_id:
        return holder
    return consumer_members.holding(ctx, group, identity.member_id, instance_id, now)


TIMEOUTS: Final[Mapping[str, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {
        TimerKind.MEMBER_SESSION: session_timeout,
        TimerKind.REVOCATION: revocation_timeout,
    }
)
