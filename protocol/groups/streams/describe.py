"""StreamsGroupDescribe, deletion, and what the APIs about groups of any type return."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.group_type import GroupSummary
from protocol.groups.modern import group as modern
from protocol.groups.modern import target
from protocol.groups.modern.describe import describe_groups
from protocol.groups.streams.answers import tasks_by_role
from protocol.groups.streams.group import StreamsGroup
from protocol.groups.streams.prepare import configured_topology
from protocol.groups.streams.requests import check_served
from protocol.groups.streams.task_offsets import NOTHING
from protocol.records import Record, StreamsGroupTopologyKey
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import NO_THROTTLE
from protocol.wire.operations import GROUP_OPERATIONS, told
from protocol.wire.streams_messages import (
    DescribedEndpoint,
    DescribedKeyValue,
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedSubtopology,
    DescribedTaskIds,
    DescribedTaskOffset,
    DescribedTasks,
    DescribedTopicInfo,
    DescribedTopology,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.streams.configured import ConfiguredTopology
    from protocol.groups.streams.group import StreamsGroupMember
    from protocol.groups.topic_numbers import Partition
    from protocol.records import StreamsSubtopology, StreamsTopicInfo

PROTOCOL_TYPE: Final = "streams"

NOT_REQUESTED, NOT_STORED = 0, 1
"""Why there is no description of the topology: it was not asked for, or no plugin stores any."""


def streams_group_describe(ctx: Context, request: Request, now: int) -> None:  # noqa: ARG001 - as every handler
    """Describe streams groups; groups of another type are not found."""
    message = request.message
    assert isinstance(message, StreamsGroupDescribeRequest)
    check_served(ctx)
    operations = told(GROUP_OPERATIONS, is_asked=message.include_authorized_operations)
    status = NOT_STORED if message.include_topology_description else NOT_REQUESTED
    groups = describe_groups(
        ctx,
        StreamsGroup,
        message.group_ids,
        DescribedStreamsGroup,
        lambda group: _described(ctx, group, operations, status),
    )
    response = StreamsGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=groups)
    ctx.reply(request.ticket, response, None)


def _described(
    ctx: Context, group: StreamsGroup, operations: int, description_status: int
) -> DescribedStreamsGroup:
    return DescribedStreamsGroup(
        error_code=ErrorCode.none,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(ctx, group),
        members=tuple(_member(ctx, group, each) for each in group.members.values()),
        authorized_operations=operations,
        topology_description_status=description_status,
        assignor_name=target.preferred_assignor(ctx, group),
    )


def _topology(ctx: Context, group: StreamsGroup) -> DescribedTopology | None:
    """Describe the topology; internal topics with their partitions once it can run."""
    topology = group.topology
    if topology is None:
        return None
    configured = configured_topology(ctx, group, topology)
    return DescribedTopology(
        epoch=topology.epoch,
        subtopologies=tuple(
            _subtopology(each, configured) for each in topology.subtopologies.values()
        ),
    )


def _subtopology(
    subtopology: StreamsSubtopology, configured: ConfiguredTopology
) -> DescribedSubtopology:
    return DescribedSubtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=tuple(sorted(subtopology.source_topics)),
        repartition_sink_topics=tuple(sorted(subtopology.repartition_sink_topics)),
        state_changelog_topics=_topics(subtopology.state_changelog_topics, configured),
        repartition_source_topics=_topics(subtopology.repartition_source_topics, configured),
    )


def _topics(
    topics: Iterable[StreamsTopicInfo], configured: ConfiguredTopology
) -> tuple[DescribedTopicInfo, ...]:
    described = []
    for topic in sorted(topics, key=lambda each: each.name):
        known = configured.internal.get(topic.name) if configured.is_ready else None
        described.append(
            DescribedTopicInfo(
                name=topic.name,
                partitions=topic.partitions if known is None else known.partitions,
                replication_factor=topic.replication_factor,
                topic_configs=tuple(
                    DescribedKeyValue(key=each.key, value=each.value)
                    for each in topic.topic_configs
                ),
            )
        )
    return tuple(described)


def _member(
    ctx: Context, group: StreamsGroup, member: StreamsGroupMember
) -> DescribedStreamsMember:
    metadata, endpoint = member.metadata, member.metadata.user_endpoint
    runtime = ctx.modern_runtime.get(group.group_id)
    known = NOTHING if runtime is None else runtime.own.offsets.get(member.member_id, NOTHING)
    wanted = target.of_member(ctx, group, member) if member.member_id in group.targets else ()
    return DescribedStreamsMember(
        member_id=member.member_id,
        member_epoch=member.assignment.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=(
            None if endpoint is None else DescribedEndpoint(host=endpoint.host, port=endpoint.port)
        ),
        client_tags=tuple(
            DescribedKeyValue(key=each.key, value=each.value) for each in metadata.client_tags
        ),
        task_offsets=_offsets(known.offsets),
        task_end_offsets=_offsets(known.end_offsets),
        assignment=_tasks(group, member.assignment.assigned),
        target_assignment=_tasks(group, wanted),
        is_classic=False,
    )


def _offsets(offsets: Iterable[tuple[str, int, int]]) -> tuple[DescribedTaskOffset, ...]:
    return tuple(
        DescribedTaskOffset(subtopology_id=name, partition=index, offset=offset)
        for name, index, offset in offsets
    )


def _tasks(group: StreamsGroup, owned: Iterable[Partition]) -> DescribedTasks:
    active, standby, warmup = (
        tuple(DescribedTaskIds(subtopology_id=name, partitions=tuple(n)) for name, n in each)
        for each in tasks_by_role(owned, group.numbers)
    )
    return DescribedTasks(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def summary(ctx: Context, group_id: str) -> GroupSummary:
    """Return a streams group's entry for ListGroups."""
    group = ctx.groups[group_id]
    assert isinstance(group, StreamsGroup)
    return GroupSummary(StreamsGroup.type_name, group.state, PROTOCOL_TYPE, len(group.members))


def is_abandoned(ctx: Context, group_id: str) -> bool:
    """Whether a group has no members."""
    return not ctx.groups[group_id].has_members


def delete(ctx: Context, group_id: str, now: int) -> None:
    """Remove an Empty group and its topology from the log."""
    ctx.emit(Record(StreamsGroupTopologyKey(group_id), None))
    modern.delete(ctx, group_id, now)


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {StreamsGroupDescribeRequest.__api_key__: streams_group_describe}
)
