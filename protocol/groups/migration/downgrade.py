"""Converts a consumer group to a classic group when its last consumer-protocol member leaves.

The group epoch becomes the generation, and the members' current partitions their assignments; a
later upgrade of the group finds there which partitions are in use. These assignments usually differ
from the target, so the group rebalances at once. Its record then has no leader, which tells a new
coordinator that this rebalance has not taken place yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.classic import membership, rebuild
from protocol.groups.classic.group import CONSUMER, protocol_list_of
from protocol.groups.classic.protocol_lists import ProtocolLists
from protocol.groups.consumer.group import consumer_group_of
from protocol.groups.facts import GroupConverted
from protocol.groups.migration import policy as migration
from protocol.groups.modern import group as modern
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT
from protocol.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    Record,
)
from protocol.wire.embedded import encode_assignment, version_of
from protocol.wire.messages import JoinGroupRequestProtocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kio.static.protocol import Entity

    from protocol.groups.classic.group import ClassicGroupRuntime
    from protocol.groups.consumer.group import ConsumerGroup, ConsumerGroupMember
    from protocol.groups.context import Context
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.topic_numbers import Partition
    from protocol.wire.embedded import TopicPartition

MAX_SIZE: Final = "group.max.size"


def is_due(ctx: Context, group: ConsumerGroup, leaving: Collection[str]) -> bool:
    """Whether the group has classic members, and no others, once these members have left."""
    staying = len(group.members) - len(leaving)
    classic = group.classic_members - sum(group.members[each].is_classic for each in leaving)
    return staying > 0 and classic == staying and _is_allowed(ctx, staying)


def is_due_replacing(ctx: Context, group: ConsumerGroup, replaced: ConsumerGroupMember) -> bool:
    """Whether only classic members remain once one has replaced this static member."""
    others = len(group.members) - 1
    is_last = not replaced.is_classic and group.classic_members == others
    return is_last and _is_allowed(ctx, others + 1)


def _is_allowed(ctx: Context, members: int) -> bool:
    return migration.allows_downgrade(ctx) and members <= ctx.configs.integer(MAX_SIZE)


def is_settled(group: ConsumerGroup) -> bool:
    """Whether every member has the newest target assignment."""
    epoch = group.epoch
    return group.assignment_epoch == epoch and group.settled[epoch] == len(group.members)


def convert(
    ctx: Context, runtime: ModernGroupRuntime, leaving: Collection[str], now: int
) -> ClassicGroupRuntime:
    """Convert a consumer group to a classic group of the remaining members, all of them classic.

    It is Stable if they have their whole targets and no member left; otherwise it rebalances.
    """
    hard, group_id = consumer_group_of(runtime), runtime.group_id
    staying = [member for member_id, member in hard.members.items() if member_id not in leaving]
    protocols = {each.member_id: _protocols(each) for each in staying}
    has_leader = not leaving and is_settled(hard)
    value = _generation(ctx, hard, staying, has_leader, now)
    modern.forget(ctx, runtime)
    for key in _doomed(hard):
        ctx.emit(Record(key, None))
    ctx.emit(Record(GroupMetadataKey(group=group_id), value))
    ctx.fact(
        GroupConverted(
            group_id=group_id,
            time_ms=now,
            group_type="classic",
            epoch=value.generation,
            members=len(staying),
        )
    )
    group = rebuild.find(ctx, group_id, now)
    assert group is not None
    group.event_log = runtime.event_log
    for member in group.members.values():
        offered = protocols[member.member_id]
        group.set_protocols(member, offered, protocol_list_of(offered))
        membership.touch(ctx, group, member, now)
    return group


def _doomed(group: ConsumerGroup) -> list[Entity]:
    """Return the keys of all the group's records, in Kafka's order."""
    group_id, members = group.group_id, list(group.members)
    return [
        *(ConsumerGroupCurrentMemberAssignmentKey(group_id, each) for each in members),
        *(ConsumerGroupTargetAssignmentMemberKey(group_id, each) for each in members),
        ConsumerGroupTargetAssignmentMetadataKey(group_id),
        *(ConsumerGroupMemberMetadataKey(group_id, each) for each in members),
        *(ConsumerGroupRegularExpressionKey(group_id, regex) for regex in group.regexes),
        ConsumerGroupPartitionMetadataKey(group_id),
        ConsumerGroupMetadataKey(group_id),
    ]


def _generation(
    ctx: Context,
    group: ConsumerGroup,
    staying: list[ConsumerGroupMember],
    has_leader: bool,
    now: int,
) -> GroupMetadataValue:
    """Build the record of a classic generation from the group."""
    protocol_lists = ProtocolLists()
    for member in staying:
        protocol_lists.add(tuple(dict.fromkeys(each.name for each in _protocols(member))))
    protocol = protocol_lists.select()
    return GroupMetadataValue(
        protocol_type=CONSUMER,
        generation=group.epoch,
        protocol=protocol,
        leader=staying[0].member_id if has_leader else None,
        current_state_timestamp=ctx.wall.at(now),
        members=tuple(_member(ctx, each, protocol) for each in staying),
    )


def _member(ctx: Context, member: ConsumerGroupMember, protocol: str) -> MemberMetadata:
    metadata = member.metadata
    classic = metadata.classic_member_metadata
    assert classic is not None
    offered = {each.name: each.metadata for each in reversed(classic.supported_protocols)}
    subscription = offered[protocol]
    assignment = member.assignment
    held = sorted(_named(ctx, (*assignment.assigned, *assignment.revoking)))
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout=metadata.rebalance_timeout_ms,
        session_timeout=classic.session_timeout_ms,
        subscription=subscription,
        assignment=encode_assignment(held, version=version_of(subscription)),
    )


def assignment_of(
    ctx: Context, member: ConsumerGroupMember, partitions: Iterable[Partition], version: int
) -> bytes:
    """Encode partitions for a classic member; leave out topics that it does not subscribe to."""
    names = member.subscription.names
    wanted = sorted(each for each in _named(ctx, partitions) if each[0] in names)
    return encode_assignment(wanted, version=version)


def _named(ctx: Context, partitions: Iterable[Partition]) -> Iterable[TopicPartition]:
    uuids = ctx.numbers.uuids
    for partition in partitions:
        topic = ctx.topics.by_id(uuids[partition >> TOPIC_SHIFT])
        if topic is not None:
            yield topic.name, partition & INDEX_MASK


def _protocols(member: ConsumerGroupMember) -> tuple[JoinGroupRequestProtocol, ...]:
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    return tuple(
        JoinGroupRequestProtocol(name=each.name, metadata=each.metadata)
        for each in classic.supported_protocols
    )
