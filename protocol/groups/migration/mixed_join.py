"""JoinGroup to a consumer group that has members: a classic member joins it (online migration).

A classic member uses JoinGroup to join, to change its subscription, and for each step towards its
target; its embedded subscription reports the partitions that it still owns. The answer is sent at
once: its generation is the member epoch, no member leads, and SyncGroup brings the assignment. The
six cases of member id and instance id are those of ``classic_join``, except that an unknown member
id is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from protocol.groups.classic import answers, membership
from protocol.groups.classic import join as classic_join
from protocol.groups.classic import join_request as joining
from protocol.groups.classic.group import CONSUMER
from protocol.groups.consumer.group import consumer_group_of
from protocol.groups.facts import MemberEvent, MemberEventKind
from protocol.groups.migration import downgrade as migration_downgrade
from protocol.groups.migration import policy as migration
from protocol.groups.migration.upgrade import classic_metadata, partitions
from protocol.groups.modern import group as modern
from protocol.groups.modern import members as modern_members
from protocol.groups.modern import steps as modern_steps
from protocol.groups.modern import target
from protocol.groups.timers import TimerKind
from protocol.records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    Record,
)
from protocol.wire.embedded import decode_subscription
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import NO_THROTTLE, JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from protocol.groups.classic.join_request import Join
    from protocol.groups.consumer.group import ConsumerGroup, ConsumerGroupMember
    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.wire.embedded import EmbeddedSubscription

MEMBER_ID_REQUIRED_SINCE = 4
"""The first version that gives dynamic members an id before they join (KIP-394)."""


@dataclass(frozen=True, slots=True)
class _Newcomer:
    """The joining member: ``known`` is its present state, or that of the member it ``replaced``."""

    join: Join
    subscription: EmbeddedSubscription
    known: ConsumerGroupMember | None
    replaced: ConsumerGroupMember | None


def join_group(ctx: Context, request: Request, now: int) -> None:
    """Let a classic member join or take its next step; answer at once."""
    message = request.message
    assert isinstance(message, JoinGroupRequest)
    try:
        _join(ctx, joining.read(request, message, now))
    except KafkaError as error:
        if ctx.result.records:
            raise  # state has changed already: the shard's driver has to repair it
        ctx.reply(request.ticket, answers.join_refused(error.code), message.group_id)


def _join(ctx: Context, join: Join) -> None:
    message, now = join.message, join.now
    classic_join.check_session_timeout(ctx, join)
    runtime = modern.find(ctx, message.group_id, now)
    assert runtime is not None
    group = consumer_group_of(runtime)
    _check(ctx, group, join)
    if _is_nameless(join):
        refusal = answers.join_refused(
            ErrorCode.member_id_required, modern_steps.new_member_id(ctx)
        )
        ctx.reply(join.request.ticket, refusal, runtime.group_id)
        return
    subscription = decode_subscription(message.protocols[0].metadata)
    if subscription is None:
        raise KafkaError(ErrorCode.inconsistent_group_protocol)
    known, replaced = _find(ctx, group, message, now)
    _enter(ctx, runtime, _Newcomer(join, subscription, known, replaced))


def _check(ctx: Context, group: ConsumerGroup, join: Join) -> None:
    """Refuse by policy, by group size, or without a protocol that all classic members support."""
    message = join.message
    if not migration.allows_classic_members(ctx):
        raise KafkaError(ErrorCode.inconsistent_group_protocol)
    is_known = message.member_id in group.members or (
        message.group_instance_id in group.static_members
    )
    if not is_known:
        modern_members.check_room(ctx, group)
    count = group.classic_members
    has_common = any(group.protocols[name] == count for name in join.protocol_list)
    if message.protocol_type != CONSUMER or not has_common:
        raise KafkaError(ErrorCode.inconsistent_group_protocol)


def _is_nameless(join: Join) -> bool:
    message = join.message
    return (
        not message.member_id
        and message.group_instance_id is None
        and join.request.api_version >= MEMBER_ID_REQUIRED_SINCE
    )


def _find(
    ctx: Context, group: ConsumerGroup, message: JoinGroupRequest, now: int
) -> tuple[ConsumerGroupMember | None, ConsumerGroupMember | None]:
    """Return the member that joins, and the static member (of either protocol) it replaces."""
    instance_id, member_id = message.group_instance_id, message.member_id
    if instance_id is None:
        return group.members.get(member_id), None
    if member_id:
        return modern_members.holding(ctx, group, member_id, instance_id, now), None
    holder = group.static_member(instance_id)
    return holder, holder


def _enter(ctx: Context, runtime: ModernGroupRuntime, newcomer: _Newcomer) -> None:
    """Apply the member's request and take one step with it; or downgrade the group."""
    join, group, group_id = newcomer.join, consumer_group_of(runtime), runtime.group_id
    message, now, holder = join.message, join.now, newcomer.known
    member_id = message.member_id or modern_steps.new_member_id(ctx)
    said = _said(newcomer)
    is_static = message.group_instance_id is not None
    downgrades = (
        is_static
        and holder is not None
        and migration_downgrade.is_due_replacing(ctx, group, holder)
    )

    # From here on the request changes the group.
    if newcomer.replaced is not None:
        modern_members.replace_member(ctx, runtime, newcomer.replaced, member_id, now)
    known = group.members.get(member_id)
    before = modern_steps.previous_state(known)
    if known is None or known.metadata != said:
        ctx.emit(Record(ConsumerGroupMemberMetadataKey(group_id, member_id), said))
        runtime.feed.member_changed(member_id)
    member = group.members[member_id]
    event = _event(ctx, runtime, member, newcomer)
    if newcomer.replaced is None:
        runtime.event_log.note(ctx, event)
    has_changed = modern_steps.bump(ctx, runtime, event, before, now)
    if not downgrades:
        target.update(ctx, runtime, now)
    owned = {*partitions(ctx, newcomer.subscription.owned_partitions)}
    if not downgrades or group.assignment_epoch == group.epoch:
        given = modern_steps.StepInput(lambda: owned, has_changed)
        modern_steps.reconcile_member(ctx, runtime, member, given, now)
    if downgrades:
        _downgrade(ctx, runtime, member, join)
    else:
        _stay(ctx, runtime, member, join)


def _said(newcomer: _Newcomer) -> ConsumerGroupMemberMetadataValue:
    """Build the member's metadata from its request."""
    join, known, subscription = newcomer.join, newcomer.known, newcomer.subscription
    message, client = join.message, join.request.client
    metadata = None if known is None else known.metadata
    instance_id, rack_id = message.group_instance_id, subscription.rack_id
    rebalance_timeout_ms = join.rebalance_timeout_ms
    if metadata is not None:
        instance_id = metadata.instance_id if instance_id is None else instance_id
        rack_id = metadata.rack_id if rack_id is None else rack_id
        if rebalance_timeout_ms == -1:
            rebalance_timeout_ms = metadata.rebalance_timeout_ms
    return ConsumerGroupMemberMetadataValue(
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client.client_id,
        client_host=client.host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=rebalance_timeout_ms,
        server_assignor=None if metadata is None else metadata.server_assignor,
        classic_member_metadata=classic_metadata(join.session_timeout_ms, message.protocols),
    )


def _event(
    ctx: Context, runtime: ModernGroupRuntime, member: ConsumerGroupMember, newcomer: _Newcomer
) -> MemberEvent:
    kind = MemberEventKind.JOINED if newcomer.known is None else MemberEventKind.REJOINED
    event = modern.event(ctx, runtime, member, kind, newcomer.join.now)
    return replace(event, reason=membership.cut(newcomer.join.message.reason))


def _stay(
    ctx: Context, runtime: ModernGroupRuntime, member: ConsumerGroupMember, join: Join
) -> None:
    """Answer, and start the time in which the member must fetch its assignment."""
    group_id, member_id, now = runtime.group_id, member.member_id, join.now
    timers = ctx.timers
    timers.cancel(TimerKind.MEMBER_JOIN, group_id, member_id)
    timers.cancel(TimerKind.REVOCATION, group_id, member_id)
    deadline_ms = now + max(member.metadata.rebalance_timeout_ms, 0)
    timers.set(TimerKind.MEMBER_SYNC, group_id, member_id, deadline_ms)
    session = modern.session_of(ctx, runtime, member_id, now)
    session.session_timeout_ms = join.session_timeout_ms
    session.stamp += 1
    session.answer = None
    modern.arm(ctx, runtime, session, now + join.session_timeout_ms)
    answer = JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        generation_id=member.assignment.epoch,
        protocol_type=CONSUMER,
        protocol_name=join.message.protocols[0].name,
        leader="",
        skip_assignment=False,
        member_id=member_id,
        members=(),
    )
    ctx.reply(join.request.ticket, answer, group_id)


def _downgrade(
    ctx: Context, runtime: ModernGroupRuntime, member: ConsumerGroupMember, join: Join
) -> None:
    """Convert the group to a classic group that already includes the joining member.

    It gets the generation, and need not assign. If the group is not Stable, SyncGroup tells it to
    rejoin with the others.
    """
    group = migration_downgrade.convert(ctx, runtime, (), join.now)
    answer = answers.joined(group, group.members[member.member_id], leader="")
    ctx.reply(join.request.ticket, answer, group.group_id)
