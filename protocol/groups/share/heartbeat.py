"""ShareGroupHeartbeat: a member joins, changes, takes its target, leaves, or stays alive.

Nearly all heartbeats are steady: nothing is new on either side. They take the fast path at the top,
and the listener may repeat their answer. All others take the five steps of modern groups; then the
share state of new partitions is initialized.
"""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.facts import MemberEventKind
from protocol.groups.modern import group as modern
from protocol.groups.modern import leave as modern_leave
from protocol.groups.modern import members as modern_members
from protocol.groups.modern import steps as modern_steps
from protocol.groups.modern.hard_state import JOIN_EPOCH, LEAVE_EPOCH
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.modern.steps import HeartbeatInput
from protocol.groups.share import initialization
from protocol.groups.share.group import KIND, ShareGroup
from protocol.groups.share.records import UNKNOWN_MEMBER
from protocol.groups.share.requests import check_epoch, check_heartbeat
from protocol.records import ShareGroupMemberMetadataValue
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import (
    NO_THROTTLE,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from protocol.wire.written import WrittenAssignment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context
    from protocol.groups.effects import ClientInfo, Request
    from protocol.groups.modern.hard_state import ModernGroupMember
    from protocol.groups.modern.runtime import ModernGroupRuntime, Session
    from protocol.groups.share.group import ShareGroupMember


def heartbeat(ctx: Context, request: Request, now: int) -> None:
    """Answer a member; try the fast path first."""
    message = request.message
    assert isinstance(message, ShareGroupHeartbeatRequest)
    runtime = ctx.modern_runtime.get(message.group_id)
    if runtime is not None:
        session = runtime.sessions.get(message.member_id)
        if session is not None and _is_steady(runtime, session, message, request.client):
            session.session_deadline_ms = now + session.session_timeout_ms
            answer = session.answer or _steady_answer(ctx, runtime, session, now)
            ctx.reply(request.ticket, answer, message.group_id, modern.lease(session))
            return
    check_heartbeat(ctx, message)
    if message.member_epoch == LEAVE_EPOCH:
        _leave(ctx, request, message, now)
    else:
        _beat(ctx, request, message, now)


def _is_steady(
    runtime: ModernGroupRuntime,
    session: Session,
    message: ShareGroupHeartbeatRequest,
    client: ClientInfo,
) -> bool:
    """Whether the request has nothing new and the member has its whole target assignment."""
    member = session.member
    assignment, metadata = member.assignment, member.metadata
    return (
        message.member_epoch == assignment.epoch == runtime.group.assignment_epoch
        and message.subscribed_topic_names is None
        and assignment.state is MemberState.STABLE
        and not runtime.is_stale
        and runtime.group.kind is KIND
        and (message.rack_id is None or message.rack_id == metadata.rack_id)
        and client.client_id == metadata.client_id
        and client.host == metadata.client_host
    )


def _steady_answer(
    ctx: Context, runtime: ModernGroupRuntime, session: Session, now: int
) -> ShareGroupHeartbeatResponse:
    """Build an answer that may be repeated for long.

    The session timeout may have changed as well.
    """
    modern.arm(ctx, runtime, session, now + session.session_timeout_ms)
    interval_ms = modern_steps.heartbeat_interval_ms(ctx, runtime)
    session.answer = answer = _answer(session.member, interval_ms, None)
    return answer


def _beat(ctx: Context, request: Request, message: ShareGroupHeartbeatRequest, now: int) -> None:
    """Take the five steps, and initialize the share state of new partitions."""
    group_id, member_id, epoch = message.group_id, message.member_id, message.member_epoch
    is_joining = epoch == JOIN_EPOCH
    group = modern_members.find_group(ctx, ShareGroup, group_id, may_make=is_joining)
    known = None if group is None else group.members.get(member_id)
    if group is not None and known is None:
        modern_members.check_room(ctx, group)
        if not is_joining:
            group.member(member_id)
    if known is not None:
        check_epoch(known, epoch)
    metadata = _said(known, message, request.client)

    # From here on the request changes the group.
    heartbeat_input = HeartbeatInput(
        group_id, member_id, metadata, lambda: None, request.client.software
    )
    runtime, member, before = modern_steps.process_heartbeat(ctx, ShareGroup, heartbeat_input, now)
    initialization.update(ctx, runtime, now)
    interval_ms = modern_steps.renew_session(ctx, runtime, member, now)
    with_assignment = (
        is_joining
        or message.subscribed_topic_names is not None
        or before.assigned != member.assignment.assigned
    )
    told = None
    if with_assignment:
        told = modern_members.encoded_assignment(runtime.group, member, ctx.numbers)
    answer = _answer(member, interval_ms, told)
    ctx.reply(request.ticket, answer, group_id)


def _leave(ctx: Context, request: Request, message: ShareGroupHeartbeatRequest, now: int) -> None:
    """Remove a member that says that it leaves."""
    group_id = message.group_id
    group = ctx.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        what = "not found" if group is None else "is not a share group"
        raise KafkaError(ErrorCode.group_id_not_found, f"Group {group_id} {what}.")
    member = group.member(message.member_id)
    runtime = modern.find(ctx, group_id, now)
    assert runtime is not None
    modern_leave.remove(ctx, runtime, {member.member_id: None}, MemberEventKind.LEFT, now)
    answer = ShareGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval=NO_THROTTLE,
        assignment=None,
    )
    ctx.reply(request.ticket, answer, group_id)


def _said(
    member: ShareGroupMember | None, message: ShareGroupHeartbeatRequest, client: ClientInfo
) -> ShareGroupMemberMetadataValue:
    """Return the member's metadata after this request; the same object if nothing is new."""
    known = UNKNOWN_MEMBER if member is None else member.metadata
    names = message.subscribed_topic_names
    said = ShareGroupMemberMetadataValue(
        rack_id=known.rack_id if message.rack_id is None else message.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        subscribed_topic_names=(
            known.subscribed_topic_names if names is None else tuple(sorted(set(names)))
        ),
    )
    return known if said == known else said


def _answer(
    member: ModernGroupMember, interval_ms: int, told: bytes | None
) -> ShareGroupHeartbeatResponse:
    """Answer a member; ``told`` is its encoded assignment, if that is news."""
    return ShareGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        member_id=member.member_id,
        member_epoch=member.assignment.epoch,
        heartbeat_interval=timedelta(milliseconds=interval_ms),
        assignment=None if told is None else WrittenAssignment(told),
    )


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {ShareGroupHeartbeatRequest.__api_key__: heartbeat}
)
