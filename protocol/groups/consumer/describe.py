"""ConsumerGroupDescribe, and a consumer group's part in the APIs about groups of any type."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.classic.group import CONSUMER
from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.consumer.requests import check_served
from protocol.groups.group_type import GroupSummary
from protocol.groups.modern import target
from protocol.groups.modern.assignment_records import read_target
from protocol.groups.modern.describe import describe_groups, named_topics
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedTopicPartitions,
)
from protocol.wire.operations import GROUP_OPERATIONS, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from protocol.groups.consumer.group import ConsumerGroupMember
    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.topic_numbers import Partition

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def consumer_group_describe(ctx: Context, request: Request, now: int) -> None:  # noqa: ARG001 - as every handler
    """Describe consumer groups; groups of another type are not found."""
    message = request.message
    assert isinstance(message, ConsumerGroupDescribeRequest)
    check_served(ctx)
    operations = told(GROUP_OPERATIONS, is_asked=message.include_authorized_operations)
    groups = describe_groups(
        ctx,
        ConsumerGroup,
        message.group_ids,
        DescribedConsumerGroup,
        lambda group: _described(ctx, group, operations),
    )
    response = ConsumerGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=groups)
    ctx.reply(request.ticket, response, None)


def _described(ctx: Context, group: ConsumerGroup, operations: int) -> DescribedConsumerGroup:
    newest_first = reversed(group.members.values())  # as Kafka's tests expect
    return DescribedConsumerGroup(
        error_code=ErrorCode.none,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=target.preferred_assignor(ctx, group),
        members=tuple(_described_member(ctx, group, each) for each in newest_first),
        authorized_operations=operations,
    )


def _described_member(
    ctx: Context, group: ConsumerGroup, member: ConsumerGroupMember
) -> DescribedConsumerMember:
    """Describe a member; partitions that it still has to revoke are shown as its own."""
    metadata, assignment = member.metadata, member.assignment
    target = group.targets.get(member.member_id)
    is_classic = metadata.classic_member_metadata is not None
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=assignment.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        subscribed_topic_regex=metadata.subscribed_topic_regex,
        assignment=_assignment(ctx, [*assignment.assigned, *assignment.revoking]),
        target_assignment=_assignment(
            ctx, () if target is None else read_target(target, ctx.numbers)
        ),
        member_type=CLASSIC_MEMBER if is_classic else CONSUMER_MEMBER,
    )


def _assignment(ctx: Context, partitions: Iterable[Partition]) -> DescribedAssignment:
    return DescribedAssignment(
        topic_partitions=tuple(
            DescribedTopicPartitions(
                topic_id=topic.topic_id, topic_name=topic.name, partitions=indexes
            )
            for topic, indexes in named_topics(ctx, partitions)
        )
    )


def summary(ctx: Context, group_id: str) -> GroupSummary:
    """Return a consumer group's entry for ListGroups."""
    group = ctx.groups[group_id]
    assert isinstance(group, ConsumerGroup)
    return GroupSummary(ConsumerGroup.type_name, group.state, CONSUMER, len(group.members))


def is_abandoned(ctx: Context, group_id: str) -> bool:
    """Whether a group has no members."""
    return not ctx.groups[group_id].has_members


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {ConsumerGroupDescribeRequest.__api_key__: consumer_group_describe}
)
