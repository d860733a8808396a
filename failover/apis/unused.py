"""APIs of features that this cluster lacks, answered as by a Kafka with the feature switched off.

Administration tools call these on every cluster. A missing API fails there as "unsupported"; where
Kafka has a simple answer that is true here, such as an empty list, that is returned instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from failover.apis.log import trouble
from failover.catalogue.cluster_view import leader_of
from failover.catalogue.topic_names import OWN_LOGS
from protocol.wire.admin_messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    DescribeClientQuotasResponse,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopic,
    ListPartitionReassignmentsResponse,
    PartitionResult,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import NO_THROTTLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kio.static.protocol import Entity

    from failover.catalogue.cluster_view import ClusterView, NodeHandler
    from protocol.groups.effects import Request
    from protocol.groups.topics import Topic

NO_AUTHORIZER: Final = "No Authorizer is configured."
NOT_REASSIGNED: Final = "Rollcall places partitions by itself: they cannot be reassigned."
NO_REASSIGNMENT: Final = "No partition reassignment is in progress."
NO_SUCH_TOPIC: Final = "This server does not host this topic-partition."
HIGH_WATERMARK: Final = -1
"""DeleteRecords' value for the end of the partition."""

LOG_DIR: Final = "rollcall"
"""Name of the one log directory that is described; its place on the disk is not revealed."""


def security_disabled(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Refuse every request about access control lists: there is no authorizer."""
    raise KafkaError(ErrorCode.security_disabled, NO_AUTHORIZER)


def no_sasl(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Refuse to authenticate, as a PLAINTEXT listener does."""
    raise KafkaError(ErrorCode.illegal_sasl_state)


def delete_records(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Delete nothing: the partitions hold no records."""
    message = cast("DeleteRecordsRequest", request.message)
    return DeleteRecordsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(_deleted(view, topic.name, each) for each in topic.partitions),
            )
            for topic in message.topics
        ),
    )


def _deleted(
    view: ClusterView, name: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    code = trouble(view, view.catalog.topics.by_name(name), asked.partition_index)
    if name in OWN_LOGS:
        code = ErrorCode.invalid_topic_exception
    elif code is ErrorCode.none and asked.offset not in (0, HIGH_WATERMARK):
        code = ErrorCode.offset_out_of_range
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index,
        low_watermark=0 if code is ErrorCode.none else -1,
        error_code=code,
    )


def describe_log_dirs(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Describe the partitions that have a replica here: they are empty.

    The coordinators' own logs are left out: they share one store, so no partition has a size.
    """
    message = cast("DescribeLogDirsRequest", request.message)
    names = None if message.topics is None else {topic.topic for topic in message.topics}
    topics = tuple(
        DescribeLogDirsTopic(name=topic.name, partitions=tuple(_empty_logs(view, topic)))
        for topic in map(view.catalog.topics.by_name, view.catalog.topics.names())
        if topic is not None
        and topic.name not in OWN_LOGS
        and (names is None or topic.name in names)
    )
    result = DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=LOG_DIR,
        topics=tuple(topic for topic in topics if topic.partitions),
    )
    return DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results=(result,)
    )


def _empty_logs(view: ClusterView, topic: Topic) -> Iterator[DescribeLogDirsPartition]:
    for index in range(topic.partitions):
        if view.node_id in topic.replicas[index]:
            yield DescribeLogDirsPartition(
                partition_index=index, partition_size=0, offset_lag=0, is_future_key=False
            )


def elect_leaders(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Hold no manual election: each partition already has the leader that it should have.

    As in Kafka, asking for all partitions lists only those whose leader has changed: none.
    """
    message = cast("ElectLeadersRequest", request.message)
    return ElectLeadersResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=tuple(
                    _not_elected(view, topic, each) for each in topic.partitions
                ),
            )
            for topic in message.topic_partitions or ()
        ),
    )


def _not_elected(view: ClusterView, asked: ElectLeadersTopic, index: int) -> PartitionResult:
    known = view.catalog.topics.by_name(asked.topic)
    code, sentence = (
        ErrorCode.election_not_needed,
        "Leader election not needed for topic partition.",
    )
    if known is None or not 0 <= index < known.partitions:
        code, sentence = ErrorCode.unknown_topic_or_partition, NO_SUCH_TOPIC
    elif leader_of(view, known, index) < 0:
        code, sentence = ErrorCode.leader_not_available, "No replica of it is available."
    return PartitionResult(partition_id=index, error_code=code, error_message=sentence)


def alter_partition_reassignments(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Refuse to move a partition; accept a request to leave it where it is."""
    message = cast("AlterPartitionReassignmentsRequest", request.message)
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        allow_replication_factor_change=message.allow_replication_factor_change,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _not_reassigned(view.catalog.topics.by_name(topic.name), each)
                    for each in topic.partitions
                ),
            )
            for topic in message.topics
        ),
    )


def _not_reassigned(
    known: Topic | None, asked: ReassignablePartition
) -> ReassignablePartitionResponse:
    index = asked.partition_index
    code, sentence = ErrorCode.policy_violation, NOT_REASSIGNED
    if known is None or not 0 <= index < known.partitions:
        code, sentence = ErrorCode.unknown_topic_or_partition, NO_SUCH_TOPIC
    elif asked.replicas is None:
        code, sentence = ErrorCode.no_reassignment_in_progress, NO_REASSIGNMENT
    elif tuple(asked.replicas) == tuple(known.replicas[index]):
        return ReassignablePartitionResponse(
            partition_index=index, error_code=ErrorCode.none, error_message=None
        )
    return ReassignablePartitionResponse(
        partition_index=index, error_code=code, error_message=sentence
    )


def list_partition_reassignments(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """List no reassignments."""
    return blank(ListPartitionReassignmentsResponse)


def describe_client_quotas(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Describe no quotas."""
    entries: tuple[Any, ...] = ()
    return blank(DescribeClientQuotasResponse, entries=entries)


def describe_user_scram_credentials(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Describe no users; report each named user as missing."""
    message = cast("DescribeUserScramCredentialsRequest", request.message)
    return blank(
        DescribeUserScramCredentialsResponse,
        results=tuple(
            DescribeUserScramCredentialsResult(
                user=user.name,
                error_code=ErrorCode.resource_not_found,
                error_message=f"There are no credentials of a user {user.name}.",
                credential_infos=(),
            )
            for user in message.users or ()
        ),
    )


HANDLERS: Final[Mapping[int, NodeHandler]] = {
    17: no_sasl,
    21: delete_records,
    29: security_disabled,
    30: security_disabled,
    31: security_disabled,
    35: describe_log_dirs,
    43: elect_leaders,
    45: alter_partition_reassignments,
    46: list_partition_reassignments,
    48: describe_client_quotas,
    50: describe_user_scram_credentials,
}
