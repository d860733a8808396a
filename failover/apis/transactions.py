"""What belongs to transactions and idempotent producers: refused at once, or there is none.

There is no transaction coordinator. Transactional ids are refused as a Kafka refuses them whose
authorizer allows none: every client gives up on that, where on "not available" it asks for ever.
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
    """Give an idempotent producer an id of its own, and refuse a transactional one.

    Java's producers ask before they send anything. With an id they go on to Produce, whose answer
    has room for the sentence that says why nothing is stored. The id is made of the time, the node
    and the request; nobody remembers it, as no record ever carries it.
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
    """List no transactions, and which of the states asked for do not exist."""
    message = cast("ListTransactionsRequest", request.message)
    return ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        unknown_state_filters=tuple(one for one in message.state_filters if one not in STATES),
        transaction_states=(),
    )


def describe_producers(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Say that nobody produces to any partition that this node leads."""
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
