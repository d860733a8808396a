"""Produce: every record is refused, partition by partition, with a message that says why.

Clients judge a broker by the APIs that it lists. Without Produce 3 and later, librdkafka assumes
that the broker predates record batches of version 2, and its consumers never fetch. So Produce is
listed as Kafka lists it, and answered as Kafka answers records that its policy rejects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from protocol.wire import refusals
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kio.static.protocol import Entity

    from failover.catalogue.cluster_view import ClusterView, NodeHandler
    from protocol.groups.effects import Request
    from protocol.groups.topics import Topic

NOT_STORED: Final = "Rollcall coordinates consumer groups: records are not stored."

TOPIC_IDS_SINCE: Final = 13
"""The first Produce version in which topics are given by id."""

ACKS: Final = frozenset({-1, 0, 1})


def produce(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Refuse the records of each partition; none of these errors makes a producer retry.

    POLICY_VIOLATION is the general answer, UNKNOWN_TOPIC_OR_PARTITION (UNKNOWN_TOPIC_ID) for what
    does not exist, INVALID_REQUIRED_ACKS for acks other than -1, 0 and 1.
    """
    message = cast("ProduceRequest", request.message)
    if message.acks not in ACKS:
        why = refusals.Refusal(ErrorCode.invalid_required_acks, None, request.api_version)
        return refusals.produce(message, why)
    by_id = request.api_version >= TOPIC_IDS_SINCE
    return ProduceResponse(
        throttle_time=NO_THROTTLE,
        responses=tuple(_topic(view, topic, by_id) for topic in message.topic_data),
    )


def _topic(view: ClusterView, asked: TopicProduceData, by_id: bool) -> TopicProduceResponse:
    topics = view.catalog.topics
    if by_id:
        known = None if asked.topic_id is None else topics.by_id(asked.topic_id)
    else:
        known = topics.by_name(asked.name)
    unknown = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    return TopicProduceResponse(
        topic_id=asked.topic_id,
        name=asked.name,
        partition_responses=tuple(
            _partition(known, each, unknown) for each in asked.partition_data
        ),
    )


def _partition(
    known: Topic | None, asked: PartitionProduceData, unknown: ErrorCode
) -> PartitionProduceResponse:
    if known is None:
        code = unknown
    elif not 0 <= asked.index < known.partitions:
        code = ErrorCode.unknown_topic_or_partition
    else:
        code = ErrorCode.policy_violation
    return blank(
        PartitionProduceResponse,
        index=asked.index,
        error_code=code,
        base_offset=refusals.NO_OFFSET,
        error_message=NOT_STORED if code is ErrorCode.policy_violation else None,
    )


HANDLERS: Final[Mapping[int, NodeHandler]] = {
    0: produce,
}
