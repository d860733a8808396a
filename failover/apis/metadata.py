"""Metadata, DescribeCluster and DescribeTopicPartitions: topics, nodes and leaders."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from failover.catalogue.cluster_view import Mutating, leader_of
from failover.catalogue.topic_names import INTERNAL, why_invalid
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import (
    NO_THROTTLE,
    CreatableTopic,
    CreateTopicsRequest,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    NextCursor,
)
from protocol.wire.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from kio.static.protocol import Entity

    from failover.catalogue.cluster_view import ClusterView, Node, NodeHandler
    from protocol.groups.effects import Request
    from protocol.groups.topics import Topic

LEADER_EPOCH: Final = 0
"""Leader epoch of every partition that clients see: logs without records cannot diverge."""

AUTO_CREATE_TIMEOUT: Final = timedelta(seconds=30)
"""``timeout`` of the CreateTopics request that a Metadata request for a missing topic causes."""


AUTO_CREATED_MAX: Final = 1_000
"""How many topics one Metadata request may create; clients ask again for the others."""


def metadata(view: ClusterView, request: Request, now_ms: int) -> Entity | Mutating:  # noqa: ARG001
    """Describe the nodes and the requested topics; missing topics may be created meanwhile.

    A missing topic is UNKNOWN_TOPIC_OR_PARTITION this time, whether it is being created or not:
    clients ask again.
    """
    message = cast("MetadataRequest", request.message)
    _check_versions(message, request.api_version)
    names, unknown_ids = _names_asked(view, message)
    known = [name for name in names if name in view.catalog.topics]
    missing = [name for name in names if name not in view.catalog.topics]
    creatable = _creatable(view, message, missing)
    view.described.look(view.catalog.topics, view.catalog.nodes, view.leaders)
    with_operations = message.include_topic_authorized_operations
    topics = [
        *(_unknown_id(topic_id) for topic_id in unknown_ids),
        *(_describe(view, name, with_operations) for name in known),
        *(_missing(name) for name in missing),
    ]
    response = MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=_brokers(view),
        cluster_id=view.cluster_id,
        controller_id=_controller_id(view),
        topics=tuple(topics),
        error_code=ErrorCode.none,
        cluster_authorized_operations=(
            told(CLUSTER_OPERATIONS, is_asked=message.include_cluster_authorized_operations)
        ),
    )
    return Mutating(response, _creation(creatable)) if creatable else response


def _check_versions(message: MetadataRequest, api_version: int) -> None:
    if api_version >= 12:
        return
    for topic in message.topics or ():
        if topic.name is None or topic.topic_id is not None:
            raise KafkaError(
                ErrorCode.invalid_request, "Topics are named, not given by id, before version 12."
            )


def _names_asked(view: ClusterView, message: MetadataRequest) -> tuple[list[str], list[UUID]]:
    """Return the requested names, each once, and the ids that no topic has."""
    topics = view.catalog.topics
    if message.topics is None:
        return list(topics.names()), []
    ids = dict.fromkeys(topic.topic_id for topic in message.topics if topic.topic_id is not None)
    if not ids:  # once a topic is given by id, Kafka looks at ids only
        return [
            *dict.fromkeys(topic.name for topic in message.topics if topic.name is not None)
        ], []
    known = {topic_id: topics.by_id(topic_id) for topic_id in ids}
    names = [topic.name for topic in known.values() if topic is not None]
    return names, [topic_id for topic_id, topic in known.items() if topic is None]


def _creatable(view: ClusterView, message: MetadataRequest, missing: Iterable[str]) -> list[str]:
    if not message.allow_auto_topic_creation:
        return []
    if not view.configs.boolean("auto.create.topics.enable"):
        return []
    names = (name for name in missing if name not in INTERNAL and why_invalid(name) is None)
    return list(islice(names, AUTO_CREATED_MAX))


def _creation(names: list[str]) -> CreateTopicsRequest:
    topics = tuple(
        CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=(), configs=()
        )
        for name in names
    )
    return CreateTopicsRequest(topics=topics, timeout=AUTO_CREATE_TIMEOUT)


def _unknown_id(topic_id: UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.unknown_topic_id, name=None, topic_id=topic_id, partitions=()
    )


def _missing(name: str) -> MetadataResponseTopic:
    is_invalid = why_invalid(name) is not None
    return MetadataResponseTopic(
        error_code=(
            ErrorCode.invalid_topic_exception
            if is_invalid
            else ErrorCode.unknown_topic_or_partition
        ),
        name=name,
        topic_id=None,
        is_internal=name in INTERNAL,
        partitions=(),
    )


def _describe(view: ClusterView, name: str, with_operations: bool) -> MetadataResponseTopic:
    topic = view.catalog.topics.by_name(name)
    assert topic is not None
    known = view.described.find(topic, with_operations)
    if known is not None:
        return known
    described = MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=name,
        topic_id=topic.topic_id,
        is_internal=name in INTERNAL,
        partitions=tuple(_partition(view, topic, index) for index in range(topic.partitions)),
        topic_authorized_operations=told(TOPIC_OPERATIONS, is_asked=with_operations),
    )
    view.described.keep(topic, with_operations, described)
    return described


def _partition(view: ClusterView, topic: Topic, index: int) -> MetadataResponsePartition:
    leader = leader_of(view, topic, index)
    replicas = topic.replicas[index]
    offline = _offline(view, replicas)
    return MetadataResponsePartition(
        error_code=ErrorCode.none if leader >= 0 else ErrorCode.leader_not_available,
        partition_index=index,
        leader_id=leader,
        leader_epoch=LEADER_EPOCH,
        replica_nodes=replicas,
        isr_nodes=tuple(node for node in replicas if node not in offline),
        offline_replicas=offline,
    )


def _offline(view: ClusterView, replicas: tuple[int, ...]) -> tuple[int, ...]:
    nodes = view.catalog.nodes
    return tuple(one for one in replicas if one not in nodes or not nodes[one].up)


def _brokers(view: ClusterView) -> tuple[MetadataResponseBroker, ...]:
    return tuple(
        MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in _live(view)
    )


def _live(view: ClusterView) -> list[Node]:
    return [node for node in view.catalog.nodes.values() if node.up]


def _controller_id(view: ClusterView) -> int:
    """Return the node to send changes to; any node will do, so one that is up."""
    live = [node.node_id for node in _live(view)]
    if view.controller_id in live:
        return view.controller_id
    return live[0] if live else -1


def describe_cluster(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """List the nodes; include nodes that are down only if the request asks for fenced brokers."""
    message = cast("DescribeClusterRequest", request.message)
    if message.endpoint_type != 1:
        raise KafkaError(
            ErrorCode.mismatched_endpoint_type
            if message.endpoint_type == 2
            else ErrorCode.unsupported_endpoint_type,
            "Only broker endpoints are served here.",
        )
    nodes = view.catalog.nodes.values() if message.include_fenced_brokers else _live(view)
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        endpoint_type=1,
        cluster_id=view.cluster_id,
        controller_id=_controller_id(view),
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=node.node_id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=not node.up,
            )
            for node in nodes
        ),
        cluster_authorized_operations=(
            told(CLUSTER_OPERATIONS, is_asked=message.include_cluster_authorized_operations)
        ),
    )


def describe_topic_partitions(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Describe topics in the order of their names, a limited number of partitions at a time."""
    message = cast("DescribeTopicPartitionsRequest", request.message)
    names, first_index = _page(view, message)
    room = max(
        1,
        min(
            message.response_partition_limit,
            view.configs.integer("max.request.partition.size.limit"),
        ),
    )
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    cursor = None
    for name in names:
        topic = view.catalog.topics.by_name(name)
        if topic is None:
            topics.append(_missing_topic(name))
            continue
        if room == 0:
            cursor = NextCursor(topic_name=name, partition_index=0)
            break
        indexes = list(islice(range(first_index, topic.partitions), room))
        first_index = 0
        room -= len(indexes)
        topics.append(_topic_page(view, topic, indexes))
        if indexes and indexes[-1] + 1 < topic.partitions:
            cursor = NextCursor(topic_name=name, partition_index=indexes[-1] + 1)
            break
    return DescribeTopicPartitionsResponse(
        throttle_time=NO_THROTTLE, topics=tuple(topics), next_cursor=cursor
    )


def _page(view: ClusterView, message: DescribeTopicPartitionsRequest) -> tuple[list[str], int]:
    """Return the names from the cursor on, and the first partition of the first of them."""
    names = {topic.name for topic in message.topics} or set(view.catalog.topics.names())
    cursor = message.cursor
    if cursor is None:
        return sorted(names), 0
    if message.topics and cursor.topic_name not in names:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"The cursor's topic {cursor.topic_name} is not among the topics asked for.",
        )
    if cursor.partition_index < 0:
        raise KafkaError(ErrorCode.invalid_request, "The cursor's partition must not be negative.")
    remaining = sorted(name for name in names if name >= cursor.topic_name)
    is_there = bool(remaining) and remaining[0] == cursor.topic_name
    return remaining, cursor.partition_index if is_there else 0


def _missing_topic(name: str) -> DescribeTopicPartitionsResponseTopic:
    missing = _missing(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=missing.error_code,
        name=name,
        topic_id=None,
        is_internal=missing.is_internal,
        partitions=(),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _topic_page(
    view: ClusterView, topic: Topic, indexes: list[int]
) -> DescribeTopicPartitionsResponseTopic:
    described = [_partition(view, topic, index) for index in indexes]
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL,
        partitions=tuple(
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.none,
                partition_index=one.partition_index,
                leader_id=one.leader_id,
                leader_epoch=one.leader_epoch,
                replica_nodes=one.replica_nodes,
                isr_nodes=one.isr_nodes,
                eligible_leader_replicas=(),
                last_known_elr=(),
                offline_replicas=one.offline_replicas,
            )
            for one in described
        ),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


HANDLERS: Final[Mapping[int, NodeHandler]] = {
    3: metadata,
    60: describe_cluster,
    75: describe_topic_partitions,
}
