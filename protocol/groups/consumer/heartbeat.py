"""ConsumerGroupHeartbeat: a member joins, changes, steps towards its target, or stays alive.

Nearly all heartbeats are steady: nothing is new on either side. They take the fast path at the top,
and the listener may repeat their answer. All others take the five steps of KIP-848.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.consumer import leave as consumer_leave
from protocol.groups.consumer import members as consumer_members
from protocol.groups.consumer.group import KIND, ConsumerGroup
from protocol.groups.consumer.records import UNKNOWN_MEMBER
from protocol.groups.consumer.requests import check, owned_partitions
from protocol.groups.modern import group as modern
from protocol.groups.modern import regexes
from protocol.groups.modern import steps as modern_steps
from protocol.groups.modern.hard_state import JOIN_EPOCH
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.modern.steps import HeartbeatInput
from protocol.groups.timers import TimerKind
from protocol.groups.topic_numbers import by_topic
from protocol.records import (
    ConsumerGroupMemberMetadataValue,
)
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    AssignedTopicPartitions,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.consumer.group import ConsumerGroupMember
    from protocol.groups.context import Context
    from protocol.groups.effects import ClientInfo, Request
    from protocol.groups.modern.hard_state import ModernGroupMember
    from protocol.groups.modern.reconcile import MemberAssignment
    from protocol.groups.modern.runtime import ModernGroupRuntime, Session

UNCHANGED: Final = timedelta(milliseconds=-1)
"""``rebalance_timeout`` of a heartbeat that does not set it."""


def heartbeat(ctx: Context, request: Request, now: int) -> None:
    """Answer a member; try the fast path first."""
    message = request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    runtime = ctx.modern_runtime.get(message.group_id)
    if runtime is not None:
        session = runtime.sessions.get(message.member_id)
        if session is not None and _is_steady(runtime, session, message, request.client):
            session.session_deadline_ms = now + session.session_timeout_ms
            answer = session.answer or _steady_answer(ctx, runtime, session, now)
            ctx.reply(request.ticket, answer, message.group_id, modern.lease(session))
            return
    check(ctx, message, request.api_version)
    if message.member_epoch < JOIN_EPOCH:
        consumer_leave.leave(ctx, request, now)
    else:
        _beat(ctx, request, message, now)


def _is_steady(
    runtime: ModernGroupRuntime,
    session: Session,
    message: ConsumerGroupHeartbeatRequest,
    client: ClientInfo,
) -> bool:
    """Whether the request has nothing new and the member has its whole target assignment."""
    member = session.member
    assignment, metadata = member.assignment, member.metadata
    return (
        message.member_epoch == assignment.epoch == runtime.group.assignment_epoch
        and runtime.group.kind is KIND
        and message.topic_partitions is None
        and message.subscribed_topic_names is None
        and assignment.state is MemberState.STABLE
        and not runtime.is_stale
        and message.rebalance_timeout == UNCHANGED
        and message.subscribed_topic_regex is None
        and message.server_assignor is None
        and (message.instance_id is None or message.instance_id == metadata.instance_id)
        and (message.rack_id is None or message.rack_id == metadata.rack_id)
        and client.client_id == metadata.client_id
        and client.host == metadata.client_host
        and metadata.classic_member_metadata is None
    )


def _steady_answer(
    ctx: Context, runtime: ModernGroupRuntime, session: Session, now: int
) -> ConsumerGroupHeartbeatResponse:
    """Build an answer that may be repeated for long: it never asks the member back early.

    The session timeout may have changed as well.
    """
    modern.arm(ctx, runtime, session, now + session.session_timeout_ms)
    interval_ms = modern_steps.heartbeat_interval_ms(ctx, runtime)
    session.answer = answer = _answer(ctx, session.member, interval_ms, with_assignment=False)
    return answer


def _beat(ctx: Context, request: Request, message: ConsumerGroupHeartbeatRequest, now: int) -> None:
    """Take the five steps."""
    group_id = message.group_id
    slot = consumer_members.find_slot(ctx, message, now)
    metadata = _said(slot.member, message, request.client)
    regexes.check_new(slot.group, slot.member, metadata.subscribed_topic_regex or "")
    member_id = message.member_id or modern_steps.new_member_id(ctx)

    # From here on the request changes the group.
    consumer_members.fill_slot(ctx, slot, member_id, now)
    heartbeat_input = HeartbeatInput(
        group_id,
        member_id,
        metadata,
        lambda: owned_partitions(ctx, message),
        request.client.software,
    )
    runtime, member, before = modern_steps.process_heartbeat(
        ctx, ConsumerGroup, heartbeat_input, now
    )
    if before.metadata is not None and before.metadata.classic_member_metadata is not None:
        _changed_protocol(ctx, runtime, member, now)
    interval_ms = modern_steps.renew_session(ctx, runtime, member, now)
    is_full = (
        message.rebalance_timeout != UNCHANGED
        and (
            message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None
        )
        and message.topic_partitions is not None
    )
    with_assignment = (
        message.member_epoch == JOIN_EPOCH
        or is_full
        or before.assigned != member.assignment.assigned
    )
    answer = _answer(ctx, member, interval_ms, with_assignment=with_assignment)
    ctx.reply(request.ticket, answer, group_id)


def _changed_protocol(
    ctx: Context, runtime: ModernGroupRuntime, member: ModernGroupMember, now: int
) -> None:
    """Apply the waits of the consumer protocol to a member that was a classic one before."""
    group_id, member_id = runtime.group_id, member.member_id
    ctx.timers.cancel(TimerKind.MEMBER_JOIN, group_id, member_id)
    ctx.timers.cancel(TimerKind.MEMBER_SYNC, group_id, member_id)
    if member.assignment.state is MemberState.UNREVOKED_PARTITIONS:
        modern.arm_revocation(ctx, runtime, member, now)
    session = modern.session_of(ctx, runtime, member_id, now)
    session.session_timeout_ms = modern.session_timeout_ms(ctx, runtime, member)


def _said(
    member: ConsumerGroupMember | None, message: ConsumerGroupHeartbeatRequest, client: ClientInfo
) -> ConsumerGroupMemberMetadataValue:
    """Return the member's metadata after this request; the same object if nothing is new."""
    known = UNKNOWN_MEMBER if member is None else member.metadata
    names, timeout = message.subscribed_topic_names, message.rebalance_timeout
    assignor, regex = message.server_assignor, message.subscribed_topic_regex
    said = replace(
        known,
        instance_id=known.instance_id if message.instance_id is None else message.instance_id,
        rack_id=known.rack_id if message.rack_id is None else message.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        subscribed_topic_names=(
            known.subscribed_topic_names if names is None else tuple(sorted(set(names)))
        ),
        subscribed_topic_regex=known.subscribed_topic_regex if regex is None else regex,
        rebalance_timeout_ms=(
            known.rebalance_timeout_ms
            if timeout == UNCHANGED
            else timeout // timedelta(milliseconds=1)
        ),
        server_assignor=known.server_assignor if assignor is None else assignor,
        classic_member_metadata=None,
    )
    return known if said == known else said


def _answer(
    ctx: Context, member: ModernGroupMember, interval_ms: int, *, with_assignment: bool
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        member_id=member.member_id,
        member_epoch=member.assignment.epoch,
        heartbeat_interval=timedelta(milliseconds=interval_ms),
        assignment=_assignment(ctx, member.assignment) if with_assignment else None,
    )


def _assignment(ctx: Context, assignment: MemberAssignment) -> HeartbeatAssignment:
    uuids = ctx.numbers.uuids
    return HeartbeatAssignment(
        topic_partitions=tuple(
            AssignedTopicPartitions(topic_id=uuids[topic], partitions=tuple(indexes))
            for topic, indexes in by_topic(assignment.assigned)
        )
    )


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {ConsumerGroupHeartbeatRequest.__api_key__: heartbeat}
)
