"""APIs of transactions and idempotent producers: refused at once, or answered as empty.

There is no transaction coordinator. Transactional ids are refused as by a Kafka whose authorizer
allows none: every client gives up on that error, whereas on "not available" it would retry forever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from failover.apis.log import trouble
from protocol.wire.admin_messages import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import NO_THROTTLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kio.static.protocol import Entity

    from failover.catalogue.cluster_view import ClusterView, NodeHandler
    from protocol.groups.effects import Request

STATES: Final = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)
"""The states that a transaction may have."""


def init_producer_id(view: ClusterView, request: Request, now_ms: int) -> Entity:
    """Assign an id to an idempotent producer, and refuse a transactional one.

    Java's producers ask before they send anything. With an id they continue to Produce, whose
    answer has a field for the message that says why nothing is stored. The id is made from the
    time, the node and the request; it is not stored, as no record ever carries it.
    """
    message = cast("InitProducerIdRequest", request.message)
    if message.transactional_id is not None:
        raise KafkaError(ErrorCode.transactional_id_authorization_failed)
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        producer_id=now_ms << 20 | (view.node_id & 0xFF) << 12 | request.ticket & 0xFFF,
        producer_epoch=0,
    )


def list_transactions(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """List no transactions, and which of the requested states do not exist."""
    message = cast("ListTransactionsRequest", request.message)
    return ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        unknown_state_filters=tuple(one for one in message.state_filters if one not in STATES),
        transaction_states=(),
    )


def describe_producers(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Report that no producer is active on any partition that this node leads."""
    message = cast("DescribeProducersRequest", request.message)
    return DescribeProducersResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            DescribeProducersTopicResponse(
                name=topic.name,
                partitions=tuple(
                    DescribeProducersPartitionResponse(
                        partition_index=index,
                        error_code=trouble(view, view.catalog.topics.by_name(topic.name), index),
                        active_producers=(),
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in message.topics
        ),
    )


HANDLERS: Final[Mapping[int, NodeHandler]] = {
    22: init_producer_id,
    61: describe_producers,
    66: list_transactions,
}
