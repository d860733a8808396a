"""Leaving a group: on request (LeaveGroup) or by session timeout."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.classic import answers, membership, rebalance, rebuild
from protocol.groups.classic.states import ClassicGroupState
from protocol.groups.facts import MemberEventKind, RebalanceTrigger
from protocol.groups.timers import TimerKind
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import LeaveGroupRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.classic.group import ClassicGroupMember, ClassicGroupRuntime
    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.facts import MemberEvent
    from protocol.groups.timers import TimerKey
    from protocol.wire.messages import MemberIdentity


def leave_group(ctx: Context, request: Request, now: int) -> None:
    """Remove the named members together, each with its own error, and rebalance once."""
    message = request.message
    assert isinstance(message, LeaveGroupRequest)
    if not message.group_id:
        raise KafkaError(ErrorCode.invalid_group_id)
    group = rebuild.find(ctx, message.group_id, now)
    if group is None:
        unknown = [
            answers.left_member(each, ErrorCode.unknown_member_id) for each in message.members
        ]
        ctx.reply(request.ticket, answers.left(tuple(unknown)), message.group_id)
        return
    results = []
    first: MemberEvent | None = None
    has_left = False
    for identity in message.members:
        try:
            event = _leave(ctx, group, identity, now)
        except KafkaError as error:
            results.append(answers.left_member(identity, error.code))
            continue
        has_left = True
        first = first or event
        results.append(answers.left_member(identity))
    if has_left and group.state is not ClassicGroupState.EMPTY:
        rebalance.prepare(ctx, group, RebalanceTrigger.MEMBER_LEFT, first, now)
    ctx.reply(request.ticket, answers.left(tuple(results)), group.group_id)


def _leave(
    ctx: Context, group: ClassicGroupRuntime, identity: MemberIdentity, now: int
) -> MemberEvent | None:
    """Remove one member; return None if it was only a pending member id.

    A static member may be named by its instance id alone, as administrators do. Named by its member
    id alone it leaves too: that is how a client that is no longer static leaves (KIP-345).
    """
    member_id = identity.member_id
    if not member_id:
        member_id = group.static_members.get(identity.group_instance_id or "", "")
        # Without a member id the instance id is required: None must not count as an empty one.
        if identity.group_instance_id is None:
            raise KafkaError(ErrorCode.unknown_member_id)
    elif member_id in group.pending:
        membership.drop_pending(ctx, group, member_id)
        return None
    member = membership.find(ctx, group, (member_id, identity.group_instance_id), now)
    membership.drop(ctx, group, member)
    reason = membership.cut(identity.reason)
    event = membership.event(ctx, group, member, MemberEventKind.LEFT, now)
    event = replace(event, reason=reason)
    group.event_log.note(ctx, event)
    return event


def session_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Remove a member, or a pending member id, whose session has expired."""
    group = ctx.classic_runtime.get(key.group_id)
    if group is None:
        return
    member_id = key.member_id
    if member_id in group.pending:
        membership.drop_pending(ctx, group, member_id)
        _maybe_complete(ctx, group, now)
        return
    member = group.members.get(member_id)
    if member is None or (member.is_parked and not member.is_new):
        return  # the answer to the parked request starts the session again
    deadline_ms = ctx.session_end(member)
    if deadline_ms > now:
        membership.arm(ctx, group, member, deadline_ms)
        return
    _expire(ctx, group, member, now)


def _expire(ctx: Context, group: ClassicGroupRuntime, member: ClassicGroupMember, now: int) -> None:
    membership.drop(ctx, group, member)
    event = membership.event(ctx, group, member, MemberEventKind.EXPIRED, now)
    group.event_log.note(ctx, event)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        _maybe_complete(ctx, group, now)
    else:
        rebalance.prepare(ctx, group, RebalanceTrigger.MEMBER_EXPIRED, event, now)


def _maybe_complete(ctx: Context, group: ClassicGroupRuntime, now: int) -> None:
    """End the join phase if only this member was missing, even during the initial delay."""
    if rebalance.awaits_expected(ctx, group):
        return
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.has_all_joined:
        rebalance.complete_join(ctx, group, now)


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {LeaveGroupRequest.__api_key__: leave_group}
)
TIMEOUTS: Final[Mapping[str, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {TimerKind.SESSION: session_timeout}
)
