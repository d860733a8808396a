"""ShareGroupDescribe, and a share group's part in the APIs about groups of any type."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.describe import GroupDeletion, prepared
from protocol.groups.group_type import GroupSummary
from protocol.groups.modern import group as modern
from protocol.groups.modern import target
from protocol.groups.modern.describe import describe_groups, named_topics
from protocol.groups.share import initialization, persister
from protocol.groups.share.group import ShareGroup
from protocol.groups.share.requests import check_served
from protocol.groups.share.state_topics import StateTopics
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
    from uuid import UUID

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.modern.reconcile import MemberAssignment
    from protocol.groups.share.group import ShareGroupMember
    from protocol.groups.share.persister import Results


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
    name = ShareGroup.type_name
    return GroupSummary(name, group.described_state, name, len(group.members))


def is_abandoned(_ctx: Context, _group_id: str) -> bool:
    """Return False: only an administrator deletes a share group, as in Kafka."""
    return False


@dataclass(frozen=True, slots=True)
class Preparation:
    """A group that is deleted when its share state is gone."""

    deletion: GroupDeletion

    def answered(self, ctx: Context, results: Results, now: int) -> None:
        """Delete the group; if a share coordinator failed, its topics stay *deleting*."""
        prepared(ctx, self.deletion, results.error(), now)


def before_delete(
    ctx: Context,
    group_id: str,
    job: GroupDeletion,
    now: int,  # noqa: ARG001 - as every type
) -> bool:
    """Let share coordinators remove all share state of an Empty group, if it has any."""
    group = ctx.groups[group_id]
    assert isinstance(group, ShareGroup)
    state = group.state_topics
    if not state:
        return False
    partitions: dict[UUID, frozenset[int]] = {}
    for topic_id in state.deleting:  # an earlier deletion failed
        topic = ctx.topics.by_id(topic_id)
        if topic is not None:
            partitions[topic_id] = frozenset(range(topic.partitions))
    for topics in (state.initialized, state.initializing):
        for topic_id, known in topics.items():
            before = partitions.get(topic_id, frozenset())
            partitions[topic_id] = before | known.partitions
    names = {key: name for key, name in state.ids().items() if key in partitions}
    initialization.write(ctx, group_id, StateTopics(deleting=names))
    if not partitions:
        return False
    persister.delete(ctx, group_id, partitions, Preparation(job))
    return True


def delete(ctx: Context, group_id: str, now: int) -> None:
    """Remove an Empty group from the log."""
    group = ctx.groups[group_id]
    assert isinstance(group, ShareGroup)
    ctx.emit(Record(ShareGroupStatePartitionMetadataKey(group_id), None))
    modern.delete(ctx, group_id, now)


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {ShareGroupDescribeRequest.__api_key__: share_group_describe}
)
