"""ConsumerGroupHeartbeat: a member joins, changes, makes a step towards its target, or is well.

Nearly all heartbeats are steady: nothing new on either side. Those take the short way at the top,
and their answer may be repeated by the listener. All others take the five steps of KIP-848.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.consumer import leave as consumer_leave
from protocol.groups.consumer import members as consumer_members
from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.consumer.records import UNKNOWN_MEMBER
from protocol.groups.consumer.requests import check, owned_partitions
from protocol.groups.modern import group as modern
from protocol.groups.modern import regexes
from protocol.groups.modern import steps as modern_steps
from protocol.groups.modern.hard_state import JOIN_EPOCH
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.modern.steps import Speech
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

    from protocol.groups.consumer.group import ConsumerMember
    from protocol.groups.context import Context
    from protocol.groups.effects import Client, Request
    from protocol.groups.modern.hard_state import ModernMember
    from protocol.groups.modern.reconcile import Standing
    from protocol.groups.modern.runtime import ModernRuntime, Session

UNCHANGED: Final = timedelta(milliseconds=-1)
"""``rebalance_timeout`` of a heartbeat that does not set it."""


def heartbeat(ctx: Context, request: Request, now: int) -> None:
    """Answer a member; the short way first."""
    message = request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    live = ctx.modern.get(message.group_id)
    if live is not None:
        session = live.sessions.get(message.member_id)
        if session is not None and _is_steady(live, session, message, request.client):
            session.session_deadline_ms = now + session.session_timeout_ms
            answer = session.answer or _steady_answer(ctx, live, session, now)
            ctx.reply(request.ticket, answer, message.group_id, modern.lease(session))
            return
    check(ctx, message, request.api_version)
    if message.member_epoch < JOIN_EPOCH:
        consumer_leave.leave(ctx, request, now)
    else:
        _beat(ctx, request, message, now)


def _is_steady(
    live: ModernRuntime, session: Session, message: ConsumerGroupHeartbeatRequest, client: Client
) -> bool:
    """Whether the member says nothing new and has all it should have."""
    member = session.member
    standing, metadata = member.standing, member.metadata
    return (
        message.member_epoch == standing.epoch == live.group.assignment_epoch
        and message.topic_partitions is None
        and message.subscribed_topic_names is None
        and standing.state is MemberState.STABLE
        and not live.is_stale
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
    ctx: Context, live: ModernRuntime, session: Session, now: int
) -> ConsumerGroupHeartbeatResponse:
    """Make an answer that may be repeated for long: it never asks a member back soon.

    The session timeout may be another one than before, too.
    """
    modern.arm(ctx, live, session, now + session.session_timeout_ms)
    interval_ms = modern_steps.heartbeat_interval_ms(ctx, live)
    session.answer = answer = _answer(ctx, session.member, interval_ms, with_assignment=False)
    return answer


def _beat(ctx: Context, request: Request, message: ConsumerGroupHeartbeatRequest, now: int) -> None:
    """Take the five steps."""
    group_id = message.group_id
    place = consumer_members.find_place(ctx, message, now)
    metadata = _said(place.member, message, request.client)
    regexes.check_new(place.group, place.member, metadata.subscribed_topic_regex or "")
    member_id = message.member_id or modern_steps.new_member_id(ctx)

    # From here on the group changes.
    consumer_members.take_place(ctx, place, member_id, now)
    speech = Speech(group_id, member_id, metadata, lambda: owned_partitions(ctx, message))
    live, member, before = modern_steps.speak(ctx, ConsumerGroup, speech, now)
    if before.metadata is not None and before.metadata.classic_member_metadata is not None:
        _changed_protocol(ctx, live, member, now)
    interval_ms = modern_steps.expect(ctx, live, member, now)
    is_full = (
        message.rebalance_timeout != UNCHANGED
        and (
            message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None
        )
        and message.topic_partitions is not None
    )
    with_assignment = (
        message.member_epoch == JOIN_EPOCH or is_full or before.assigned != member.standing.assigned
    )
    answer = _answer(ctx, member, interval_ms, with_assignment=with_assignment)
    ctx.reply(request.ticket, answer, group_id)


def _changed_protocol(ctx: Context, live: ModernRuntime, member: ModernMember, now: int) -> None:
    """Wait for a member as for others of the consumer protocol: it was a classic one before."""
    group_id, member_id = live.group_id, member.member_id
    ctx.timers.cancel(TimerKind.MEMBER_JOIN, group_id, member_id)
    ctx.timers.cancel(TimerKind.MEMBER_SYNC, group_id, member_id)
    if member.standing.state is MemberState.UNREVOKED_PARTITIONS:
        modern.arm_revocation(ctx, live, member, now)
    session = modern.session_of(ctx, live, member_id, now)
    session.session_timeout_ms = modern.session_timeout_ms(ctx, live, member)


def _said(
    member: ConsumerMember | None, message: ConsumerGroupHeartbeatRequest, client: Client
) -> ConsumerGroupMemberMetadataValue:
    """Work out what the member says of itself now; the same object if it says nothing new."""
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
    ctx: Context, member: ModernMember, interval_ms: int, *, with_assignment: bool
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        member_id=member.member_id,
        member_epoch=member.standing.epoch,
        heartbeat_interval=timedelta(milliseconds=interval_ms),
        assignment=_assignment(ctx, member.standing) if with_assignment else None,
    )


def _assignment(ctx: Context, standing: Standing) -> HeartbeatAssignment:
    uuids = ctx.numbers.uuids
    return HeartbeatAssignment(
        topic_partitions=tuple(
            AssignedTopicPartitions(topic_id=uuids[topic], partitions=tuple(indexes))
            for topic, indexes in by_topic(standing.assigned)
        )
    )


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {ConsumerGroupHeartbeatRequest.__api_key__: heartbeat}
)
