"""Converts a classic group to a consumer group when its first consumer-protocol member joins.

The generation becomes the group epoch, and the last assignment becomes both the target and the
current assignment of the members. So no partition moves until the new member's subscription begins
a new epoch. Members whose requests are parked in the classic rebalance are told to rejoin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.classic import lifecycle as classic_lifecycle
from protocol.groups.classic import membership, rebuild
from protocol.groups.classic.group import CONSUMER
from protocol.groups.classic.rebalance_fact import report_rebalance
from protocol.groups.consumer.group import KIND, ConsumerGroup, consumer_group_of
from protocol.groups.facts import GroupConverted, RebalanceOutcome
from protocol.groups.migration import policy as migration
from protocol.groups.modern import group as modern
from protocol.groups.modern.assignment_records import CurrentAssignment, write_current, write_target
from protocol.groups.modern.hard_state import EMPTY_EPOCH
from protocol.groups.modern.reconcile import MemberAssignment, MemberState
from protocol.groups.timers import TimerKind
from protocol.groups.topic_numbers import TOPIC_SHIFT
from protocol.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    Record,
)
from protocol.wire.embedded import decode_assigned, decode_subscription
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.groups.classic.group import ClassicGroupMember, ClassicGroupRuntime
    from protocol.groups.context import Context
    from protocol.groups.hard_group import HardGroup
    from protocol.groups.topic_numbers import Partition
    from protocol.wire.embedded import EmbeddedSubscription, TopicPartition
    from protocol.wire.messages import JoinGroupRequestProtocol


def plan(ctx: Context, group_id: str, now: int) -> ConsumerGroup | None:
    """Return what a classic group with members would become; refuse if policy forbids it.

    Change nothing; ``convert`` applies the plan. None: the group has no members and is replaced,
    whatever the policy, even during a rebalance.
    """
    if not classic_lifecycle.has_members(ctx, group_id):
        return None
    group = rebuild.find(ctx, group_id, now)
    assert group is not None
    _check(ctx, group)
    epoch = max(group.generation, EMPTY_EPOCH)
    planned = ConsumerGroup(group_id, epoch=epoch, assignment_epoch=epoch)
    protocol = _common_protocol(group)
    subscriptions = {
        member_id: _subscription(group, member, protocol)
        for member_id, member in group.members.items()
    }
    owned = _owned(ctx, group, subscriptions)
    for member_id, member in group.members.items():
        planned.put_member(member_id, _metadata(member, subscriptions[member_id]))
        assigned = dict.fromkeys(owned[member_id], epoch)
        assignment = MemberAssignment(epoch, epoch, MemberState.STABLE, assigned, {})
        planned.put_assignment(planned.members[member_id], assignment)
        planned.targets[member_id] = write_target(assigned, ctx.numbers)
    return planned


def _check(ctx: Context, group: ClassicGroupRuntime) -> None:
    if not migration.allows_upgrade(ctx):
        raise _refusal(group, "online upgrade is disabled")
    if group.protocol_type != CONSUMER:
        raise _refusal(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > ctx.configs.integer(KIND.configs.max_size):
        raise _refusal(group, "the group size exceeds the consumer group maximum size")


def _refusal(group: ClassicGroupRuntime, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.group_id_not_found,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}.",
    )


def _common_protocol(group: ClassicGroupRuntime) -> str:
    """Return the generation's protocol, or one that the members who joined since support."""
    name = group.protocol_name
    everybody = all(name in member.protocol_list for member in group.members.values())
    return name if name is not None and everybody else group.protocol_lists.select()


def _owned(
    ctx: Context, group: ClassicGroupRuntime, subscriptions: Mapping[str, EmbeddedSubscription]
) -> dict[str, list[Partition]]:
    """Return the partitions that each member may own, each partition once; too many do no harm.

    These are the last persisted assignment, which is valid until a later one is persisted, and the
    partitions that a cooperative member reported when it joined, which it keeps until its next
    SyncGroup.
    """
    last = {
        _lasting_name(member.group_instance_id, member.member_id): member.assignment
        for member in group.hard.metadata.members
    }
    owner: dict[Partition, str] = {}
    for member_id, member in group.members.items():
        data = last.get(_lasting_name(member.group_instance_id, member_id), b"")
        for partition in _assigned(ctx, group, data):
            owner.setdefault(partition, member_id)
    for member_id, subscription in subscriptions.items():
        for partition in partitions(ctx, subscription.owned_partitions):
            owner.setdefault(partition, member_id)
    owned: dict[str, list[Partition]] = {member_id: [] for member_id in group.members}
    for partition, member_id in owner.items():
        owned[member_id].append(partition)
    return owned


def _lasting_name(instance_id: str | None, member_id: str) -> tuple[str | None, str]:
    """Return a member's lasting identity: for a static member, one that outlasts its member id."""
    return (None, member_id) if instance_id is None else (instance_id, "")


def _subscription(
    group: ClassicGroupRuntime, member: ClassicGroupMember, protocol: str
) -> EmbeddedSubscription:
    subscription = decode_subscription(member.subscription(protocol))
    if subscription is None:
        raise _refusal(group, "the embedded consumer protocol is malformed")
    return subscription


def _metadata(
    member: ClassicGroupMember, subscription: EmbeddedSubscription
) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic_member_metadata=classic_metadata(member.session_timeout_ms, member.protocols),
    )


def classic_metadata(
    session_timeout_ms: int, protocols: Iterable[JoinGroupRequestProtocol]
) -> ClassicMemberMetadata:
    """Build the part of a member's metadata that only classic members have."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=tuple(
            ClassicProtocol(name=each.name, metadata=each.metadata) for each in protocols
        ),
    )


def _assigned(ctx: Context, group: ClassicGroupRuntime, data: bytes) -> Iterable[Partition]:
    """Decode an assignment; refuse one with user data, which a custom assignor depends on."""
    if not data:
        return ()
    assignment = decode_assigned(data)
    if assignment is None:
        raise _refusal(group, "the embedded consumer protocol is malformed")
    if assignment.user_data:
        raise KafkaError(
            ErrorCode.group_id_not_found,
            f"Cannot upgrade classic group {group.group_id} to consumer group because an"
            " unsupported custom assignor is in use. Please refer to the documentation or switch"
            " to a default assignor before re-attempting the upgrade.",
        )
    return partitions(ctx, assignment.partitions)


def partitions(ctx: Context, named: Iterable[TopicPartition]) -> Iterable[Partition]:
    """Convert partitions named by topic to numbers; leave out those of unknown topics."""
    for name, index in named:
        topic = ctx.topics.by_name(name)
        if topic is not None and index >= 0:
            yield ctx.numbers.number(topic.topic_id.bytes) << TOPIC_SHIFT | index


def convert(ctx: Context, group_id: str, planned: HardGroup | None, now: int) -> None:
    """Convert a classic group according to its plan."""
    if planned is None:
        classic_lifecycle.release_group_id(ctx, group_id, now)
        return
    assert isinstance(planned, ConsumerGroup)
    group = ctx.classic_runtime[group_id]
    _disband(ctx, group, now)
    ctx.emit(Record(GroupMetadataKey(group=group_id), None))
    for member_id, member in planned.members.items():
        ctx.emit(Record(ConsumerGroupMemberMetadataKey(group_id, member_id), member.metadata))
    runtime = modern.find(ctx, group_id, now)
    assert runtime is not None
    value = ConsumerGroupMetadataValue(
        epoch=planned.epoch, metadata_hash=modern.metadata_hash(ctx, runtime)
    )
    ctx.emit(Record(ConsumerGroupMetadataKey(group_id), value))
    for member_id, encoded in planned.targets.items():
        ctx.emit(Record(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), encoded))
    target = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=planned.epoch)
    ctx.emit(Record(ConsumerGroupTargetAssignmentMetadataKey(group_id), target))
    for member_id, member in planned.members.items():
        owned = member.assignment.assigned
        current = CurrentAssignment(planned.epoch, planned.epoch, MemberState.STABLE, owned, {})
        key = ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)
        ctx.emit(Record(key, write_current(current, ctx.numbers)))
    runtime.unarmed.clear()
    for member_id in planned.members:
        session = modern.session_of(ctx, runtime, member_id, now)
        modern.arm(ctx, runtime, session, now + session.session_timeout_ms)
    runtime.event_log = group.event_log
    runtime.is_stale = False
    runtime.first = None  # its members have partitions already
    runtime.must_bump = group.rebalance is not None or _is_open(ctx, consumer_group_of(runtime))
    ctx.fact(
        GroupConverted(
            group_id=group_id,
            time_ms=now,
            group_type=CONSUMER,
            epoch=planned.epoch,
            members=len(planned.members),
        )
    )


def _is_open(ctx: Context, group: ConsumerGroup) -> bool:
    """Whether some partition of a subscribed topic has no owner."""
    known = (ctx.topics.by_name(name) for name in group.topics)
    return sum(topic.partitions for topic in known if topic is not None) > len(group.holders)


def _disband(ctx: Context, group: ClassicGroupRuntime, now: int) -> None:
    """Tell all members with parked requests to rejoin, and drop the soft state."""
    for member in group.members.values():
        membership.answer_join(ctx, group, member, ErrorCode.rebalance_in_progress)
        membership.answer_sync(ctx, group, member, ErrorCode.rebalance_in_progress)
        ctx.timers.cancel(TimerKind.SESSION, group.group_id, member.member_id)
    for kind in (TimerKind.JOIN, TimerKind.SYNC):
        ctx.timers.cancel(kind, group.group_id, "")
    if group.rebalance is not None:
        report_rebalance(ctx, group, RebalanceOutcome.RESTARTED, now)
    classic_lifecycle.forget(ctx, group.group_id)
