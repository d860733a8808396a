"""The place of the error in each response: one function per API, used by the table in ``apis``.

Each takes the request in its newest version and the version that the client used, for the few APIs
whose older versions have no top-level error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from protocol.wire import messages as m
from protocol.wire import streams_messages as streams
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from kio.static.protocol import Entity

Refuse: TypeAlias = "Callable[[Any, Refusal], Entity]"
NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error, its message if the response has a field for it, and the client's version."""

    code: ErrorCode
    message: str | None
    version: int


def at_top(response: type[Entity]) -> Refuse:
    """Put the error (and its message, if there is a field) at the top of the response."""
    has_message = "error_message" in response.__dataclass_fields__

    def refuse(request: Any, why: Refusal) -> Entity:  # noqa: ARG001
        if has_message:
            return blank(response, error_code=why.code, error_message=why.message)
        return blank(response, error_code=why.code)

    return refuse


_ECHOING = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.invalid_group_id,
        ErrorCode.invalid_session_timeout,
        ErrorCode.unknown_member_id,
    }
)


def join_group(request: m.JoinGroupRequest, why: Refusal) -> Entity:
    """Include the member id in the answer only where Kafka does."""
    member_id = request.member_id if why.code in _ECHOING else ""
    return blank(m.JoinGroupResponse, error_code=why.code, member_id=member_id)


def offset_commit(request: m.OffsetCommitRequest, why: Refusal) -> Entity:
    """Put the error in every partition."""
    topics = tuple(
        m.OffsetCommitResponseTopic(
            topic_id=topic.topic_id,
            name=topic.name,
            partitions=tuple(
                m.OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=why.code
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return m.OffsetCommitResponse(throttle_time=m.NO_THROTTLE, topics=topics)


def offset_fetch(request: m.OffsetFetchRequest, why: Refusal) -> Entity:
    """Put the error in every group; version 1 has errors of partitions only."""
    groups = tuple(refused_fetch(group, why) for group in request.groups)
    return m.OffsetFetchResponse(throttle_time=m.NO_THROTTLE, groups=groups)


def refused_fetch(group: m.OffsetFetchRequestGroup, why: Refusal) -> m.OffsetFetchResponseGroup:
    """Answer one group of an OffsetFetch with an error."""
    topics = () if why.version >= 2 else group.topics or ()
    return m.OffsetFetchResponseGroup(
        group_id=group.group_id,
        error_code=why.code,
        topics=tuple(
            m.OffsetFetchResponseTopics(
                topic_id=topic.topic_id,
                name=topic.name,
                partitions=tuple(
                    m.OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=NO_OFFSET,
                        metadata="",
                        error_code=why.code,
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in topics
        ),
    )


def in_every_group(response: type[Entity], described: type[Entity], asked: str) -> Refuse:
    """Put the error in every group; ``asked`` is the request's field with the groups or ids."""

    def refuse(request: Any, why: Refusal) -> Entity:
        groups = tuple(
            blank(
                described,
                group_id=each if isinstance(each, str) else each.group_id,
                error_code=why.code,
                error_message=why.message,
            )
            for each in getattr(request, asked)
        )
        return blank(response, groups=groups)

    return refuse


def share_state(
    response: type[Entity], topic_result: type[Entity], partition_result: type[Entity]
) -> Refuse:
    """Put the error in every partition."""

    def refuse(request: Any, why: Refusal) -> Entity:
        results = tuple(
            blank(
                topic_result,
                topic_id=topic.topic_id,
                partitions=tuple(
                    blank(
                        partition_result,
                        partition=partition.partition,
                        error_code=why.code,
                        error_message=why.message,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return blank(response, results=results)

    return refuse


def streams_group_heartbeat(_request: Any, why: Refusal) -> Entity:
    """Put the error at the top, with no status rather than null, as Kafka does."""
    return blank(
        streams.StreamsGroupHeartbeatResponse,
        error_code=why.code,
        error_message=why.message,
        status=(),
    )


def delete_groups(request: m.DeleteGroupsRequest, why: Refusal) -> Entity:
    """Put the error in every group."""
    return blank(
        m.DeleteGroupsResponse,
        results=tuple(
            m.DeletableGroupResult(group_id=group, error_code=why.code)
            for group in request.groups_names
        ),
    )


def find_coordinator(request: m.FindCoordinatorRequest, why: Refusal) -> Entity:
    """Put the error in every key; older versions have only one."""
    return blank(
        m.FindCoordinatorResponse,
        coordinators=tuple(
            m.Coordinator(
                key=key,
                node_id=-1,
                host="",
                port=-1,
                error_code=why.code,
                error_message=why.message,
            )
            for key in request.coordinator_keys
        ),
    )


def metadata(request: m.MetadataRequest, why: Refusal) -> Entity:
    """Put the error in every topic requested by name or id, and at the top (from 13 on)."""
    topics = tuple(
        blank(
            m.MetadataResponseTopic,
            name=topic.name or "",
            topic_id=topic.topic_id,
            error_code=why.code,
        )
        for topic in request.topics or ()
    )
    return blank(m.MetadataResponse, topics=topics, error_code=why.code)


def describe_topic_partitions(request: m.DescribeTopicPartitionsRequest, why: Refusal) -> Entity:
    """Put the error in every topic."""
    return blank(
        m.DescribeTopicPartitionsResponse,
        topics=tuple(
            blank(m.DescribeTopicPartitionsResponseTopic, name=topic.name, error_code=why.code)
            for topic in request.topics
        ),
    )


def create_topics(request: m.CreateTopicsRequest, why: Refusal) -> Entity:
    """Put the error in every topic."""
    return blank(
        m.CreateTopicsResponse,
        topics=tuple(
            blank(
                m.CreatableTopicResult,
                name=topic.name,
                error_code=why.code,
                error_message=why.message,
                configs=(),
            )
            for topic in request.topics
        ),
    )


def delete_topics(request: m.DeleteTopicsRequest, why: Refusal) -> Entity:
    """Put the error in every topic."""
    return blank(
        m.DeleteTopicsResponse,
        responses=tuple(
            m.DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=why.code,
                error_message=why.message,
            )
            for topic in request.topics
        ),
    )


def create_partitions(request: m.CreatePartitionsRequest, why: Refusal) -> Entity:
    """Put the error in every topic."""
    return blank(
        m.CreatePartitionsResponse,
        results=tuple(
            m.CreatePartitionsTopicResult(
                name=topic.name, error_code=why.code, error_message=why.message
            )
            for topic in request.topics
        ),
    )


def describe_configs(request: m.DescribeConfigsRequest, why: Refusal) -> Entity:
    """Put the error in every resource."""
    return blank(
        m.DescribeConfigsResponse,
        results=tuple(
            blank(
                m.DescribeConfigsResult,
                error_code=why.code,
                error_message=why.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ),
    )


def incremental_alter_configs(request: m.IncrementalAlterConfigsRequest, why: Refusal) -> Entity:
    """Put the error in every resource."""
    return blank(
        m.IncrementalAlterConfigsResponse,
        responses=tuple(
            m.AlterConfigsResourceResponse(
                error_code=why.code,
                error_message=why.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ),
    )


def list_offsets(request: m.ListOffsetsRequest, why: Refusal) -> Entity:
    """Put the error in every partition."""
    return blank(
        m.ListOffsetsResponse,
        topics=tuple(
            m.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    m.ListOffsetsPartitionResponse(
                        partition_index=partition.partition_index, error_code=why.code
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def offset_for_leader_epoch(request: m.OffsetForLeaderEpochRequest, why: Refusal) -> Entity:
    """Put the error in every partition."""
    return blank(
        m.OffsetForLeaderEpochResponse,
        topics=tuple(
            m.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    m.EpochEndOffset(error_code=why.code, partition=partition.partition)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def fetch(request: m.FetchRequest, why: Refusal) -> Entity:
    """Put the error at the top; before version 13 in every partition too."""
    topics = request.topics if why.version < 13 else ()
    return blank(
        m.FetchResponse,
        error_code=why.code,
        session_id=request.session_id,
        responses=tuple(
            m.FetchableTopicResponse(
                topic_id=topic.topic_id,
                topic=topic.topic,
                partitions=tuple(
                    blank(
                        m.PartitionData,
                        partition_index=partition.partition,
                        error_code=why.code,
                        high_watermark=NO_OFFSET,
                        records=b"",
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in topics
        ),
    )


def produce(request: m.ProduceRequest, why: Refusal) -> Entity:
    """Put the error in every partition."""
    return blank(
        m.ProduceResponse,
        responses=tuple(
            m.TopicProduceResponse(
                topic_id=topic.topic_id,
                name=topic.name,
                partition_responses=tuple(
                    blank(
                        m.PartitionProduceResponse,
                        index=partition.index,
                        error_code=why.code,
                        error_message=why.message,
                        base_offset=NO_OFFSET,
                    )
                    for partition in topic.partition_data
                ),
            )
            for topic in request.topic_data
        ),
    )
