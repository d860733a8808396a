"""ShareGroupDescribe, and a share group's part in the APIs about groups of any type."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.group_type import GroupSummary
from protocol.groups.modern import group as modern
from protocol.groups.modern import target
from protocol.groups.modern.describe import describe_groups, named_topics
from protocol.groups.share import persister
from protocol.groups.share.group import ShareGroup
from protocol.groups.share.requests import check_served
from protocol.records import Record, ShareGroupStatePartitionMetadataKey
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    DescribedShareAssignment,
    DescribedShareGroup,
    DescribedShareMember,
    DescribedShareTopicPartitions,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from protocol.wire.operations import GROUP_OPERATIONS, told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.modern.reconcile import MemberAssignment
    from protocol.groups.share.group import ShareGroupMember


def share_group_describe(ctx: Context, request: Request, now: int) -> None:  # noqa: ARG001 - as every handler
    """Describe share groups; groups of another type are not found."""
    message = request.message
    assert isinstance(message, ShareGroupDescribeRequest)
    check_served(ctx)
    operations = told(GROUP_OPERATIONS, is_asked=message.include_authorized_operations)
    groups = describe_groups(
        ctx,
        ShareGroup,
        message.group_ids,
        DescribedShareGroup,
        lambda group: _described(ctx, group, operations),
    )
    response = ShareGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=groups)
    ctx.reply(request.ticket, response, None)


def _described(ctx: Context, group: ShareGroup, operations: int) -> DescribedShareGroup:
    return DescribedShareGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group.group_id,
        group_state=group.described_state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=target.preferred_assignor(ctx, group),
        members=tuple(_described_member(ctx, member) for member in group.members.values()),
        authorized_operations=operations,
    )


def _described_member(ctx: Context, member: ShareGroupMember) -> DescribedShareMember:
    metadata = member.metadata
    return DescribedShareMember(
        member_id=member.member_id,
        rack_id=metadata.rack_id,
        member_epoch=member.assignment.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        assignment=_assignment(ctx, member.assignment),
    )


def _assignment(ctx: Context, assignment: MemberAssignment) -> DescribedShareAssignment:
    return DescribedShareAssignment(
        topic_partitions=tuple(
            DescribedShareTopicPartitions(
                topic_id=topic.topic_id, topic_name=topic.name, partitions=indexes
            )
            for topic, indexes in named_topics(ctx, assignment.assigned)
        )
    )


def summary(ctx: Context, group_id: str) -> GroupSummary:
    """Return a share group's entry for ListGroups."""
    group = ctx.groups[group_id]
    assert isinstance(group, ShareGroup)
    return GroupSummary(ShareGroup.type_name, group.described_state, ShareGroup.type_name)


def is_abandoned(_ctx: Context, _group_id: str) -> bool:
    """Return False: only an administrator deletes a share group, as in Kafka."""
    return False


def delete(ctx: Context, group_id: str, now: int) -> None:
    """Remove an Empty group from the log."""
    group = ctx.groups[group_id]
    assert isinstance(group, ShareGroup)
    persister.remove_all(ctx, group_id)
    ctx.emit(Record(ShareGroupStatePartitionMetadataKey(group_id), None))
    modern.delete(ctx, group_id, now)


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {ShareGroupDescribeRequest.__api_key__: share_group_describe}
)
