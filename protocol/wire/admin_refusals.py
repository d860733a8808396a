"""The places of errors in the responses of ``admin_messages``, where not at the top."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.wire import admin_messages as m
from protocol.wire.convert import blank
from protocol.wire.messages import NO_THROTTLE
from protocol.wire.refusals import NO_OFFSET

if TYPE_CHECKING:
    from kio.static.protocol import Entity

    from protocol.wire.refusals import Refusal


def delete_records(request: m.DeleteRecordsRequest, why: Refusal) -> Entity:
    """Put the error in every partition."""
    return m.DeleteRecordsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            m.DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(
                    m.DeleteRecordsPartitionResult(
                        partition_index=each.partition_index,
                        low_watermark=NO_OFFSET,
                        error_code=why.code,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def elect_leaders(request: m.ElectLeadersRequest, why: Refusal) -> Entity:
    """Put the error at the top, and in every partition: version 0 has it only there."""
    return m.ElectLeadersResponse(
        throttle_time=NO_THROTTLE,
        error_code=why.code,
        replica_election_results=tuple(
            m.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    m.PartitionResult(
                        partition_id=index, error_code=why.code, error_message=why.message
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )


def describe_producers(request: m.DescribeProducersRequest, why: Refusal) -> Entity:
    """Put the error in every partition."""
    return m.DescribeProducersResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            m.DescribeProducersTopicResponse(
                name=topic.name,
                partitions=tuple(
                    m.DescribeProducersPartitionResponse(
                        partition_index=index,
                        error_code=why.code,
                        error_message=why.message,
                        active_producers=(),
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics
        ),
    )


def create_acls(request: m.CreateAclsRequest, why: Refusal) -> Entity:
    """Put the error in the result of every rule."""
    one = m.AclCreationResult(error_code=why.code, error_message=why.message)
    return m.CreateAclsResponse(
        throttle_time=NO_THROTTLE, results=tuple(one for _ in request.creations)
    )


def delete_acls(request: m.DeleteAclsRequest, why: Refusal) -> Entity:
    """Put the error in the result of every filter."""
    one = m.DeleteAclsFilterResult(error_code=why.code, error_message=why.message, matching_acls=())
    return m.DeleteAclsResponse(
        throttle_time=NO_THROTTLE, filter_results=tuple(one for _ in request.filters)
    )


def alter_configs(request: m.AlterConfigsRequest, why: Refusal) -> Entity:
    """Put the error in every resource."""
    return blank(
        m.AlterConfigsResponse,
        responses=tuple(
            m.LegacyConfigsResourceResponse(
                error_code=why.code,
                error_message=why.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ),
    )
