"""ShareFetch and ShareAcknowledge of topics that hold no records (KIP-932).

A member of a share group fetches from the leaders of its partitions. The answer is that of empty
partitions: nothing, after ``max_wait`` unless there is an error to report at once. A member that
got an error for the whole request would ask again at once, for ever.

Share sessions are not kept. A later request of a session names only partitions that came to it, so
an error is reported once per partition and session; with nothing to fetch, nobody misses it. No
record is ever acquired, so an acknowledgement is answered with INVALID_RECORD_STATE.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from failover.apis.log import trouble
from failover.apis.metadata import LEADER_EPOCH
from failover.catalogue.cluster_view import GROUP, DelayedResponse, leader_of
from failover.catalogue.features import SHARE_VERSION
from protocol.config import clamped
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.share_fetch_messages import (
    AcknowledgedPartition,
    AcknowledgeEndpoint,
    AcknowledgeLeader,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
    ShareFetchableTopicResponse,
    ShareFetchedPartition,
    ShareFetchEndpoint,
    ShareFetchLeader,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from kio.static.protocol import Entity

    from failover.catalogue.cluster_view import ClusterView, NodeHandler
    from protocol.groups.effects import Request

INITIAL_EPOCH: Final = 0
"""Opens a share session."""

FINAL_EPOCH: Final = -1
"""Closes a share session."""

MEMBER_ID_LENGTH_MAX: Final = 36
LOCK_DURATION: Final = "share.record.lock.duration.ms"
_MILLISECOND: Final = timedelta(milliseconds=1)


def share_fetch(view: ClusterView, request: Request, now_ms: int) -> Entity | DelayedResponse:
    """Return no records, after ``max_wait`` unless an error is to be reported or a session ends."""
    message = cast("ShareFetchRequest", request.message)
    _check(view, message)
    wait_ms = message.max_wait // _MILLISECOND
    _check_renewal(message, wait_ms)
    is_acknowledging = any(
        partition.acknowledgement_batches
        for topic in message.topics
        for partition in topic.partitions
    )
    if is_acknowledging and message.share_session_epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.invalid_request)
    topics, leaders = [], set()
    for topic in message.topics:
        told = []
        for partition in topic.partitions:
            code, leader = _trouble(view, topic.topic_id, partition.partition_index)
            is_refused = bool(partition.acknowledgement_batches)
            if code is ErrorCode.none and not is_refused:
                continue
            leaders.add(leader)
            refusal = code if code is not ErrorCode.none else ErrorCode.invalid_record_state
            told.append(
                blank(
                    ShareFetchedPartition,
                    partition_index=partition.partition_index,
                    error_code=code,
                    acknowledge_error_code=refusal.value if is_refused else 0,
                    current_leader=_leader(ShareFetchLeader, leader),
                    records=b"",
                )
            )
        if told:
            topics.append(
                ShareFetchableTopicResponse(topic_id=topic.topic_id, partitions=tuple(told))
            )
    response = blank(
        ShareFetchResponse,
        acquisition_lock_timeout=_lock_duration(view, message.group_id),
        responses=tuple(topics),
        node_endpoints=_endpoints(view, ShareFetchEndpoint, leaders),
    )
    if topics or wait_ms <= 0 or message.share_session_epoch == FINAL_EPOCH:
        return response
    return DelayedResponse(now_ms + wait_ms, response)


def share_acknowledge(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Refuse every acknowledgement: no record was acquired. Close the session if asked to."""
    message = cast("ShareAcknowledgeRequest", request.message)
    _check(view, message)
    if message.share_session_epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.invalid_share_session_epoch)
    topics, leaders = [], set()
    for topic in message.topics:
        told = []
        for partition in topic.partitions:
            code, leader = _trouble(view, topic.topic_id, partition.partition_index)
            leaders.add(leader)
            if code is ErrorCode.none and partition.acknowledgement_batches:
                code = ErrorCode.invalid_record_state
            told.append(
                blank(
                    AcknowledgedPartition,
                    partition_index=partition.partition_index,
                    error_code=code,
                    current_leader=_leader(AcknowledgeLeader, leader),
                )
            )
        topics.append(
            ShareAcknowledgeTopicResponse(topic_id=topic.topic_id, partitions=tuple(told))
        )
    return blank(
        ShareAcknowledgeResponse,
        acquisition_lock_timeout=_lock_duration(view, message.group_id),
        responses=tuple(topics),
        node_endpoints=_endpoints(view, AcknowledgeEndpoint, leaders),
    )


def _check(view: ClusterView, message: ShareFetchRequest | ShareAcknowledgeRequest) -> None:
    if not view.configs.integer(SHARE_VERSION):
        raise KafkaError(ErrorCode.unsupported_version)
    if message.group_id is None:
        raise KafkaError(ErrorCode.invalid_request, "Invalid group id in the request.")
    if not message.member_id or len(message.member_id) > MEMBER_ID_LENGTH_MAX:
        raise KafkaError(ErrorCode.invalid_request, "Invalid member id in the request.")


def _check_renewal(message: ShareFetchRequest, wait_ms: int) -> None:
    """Refuse to fetch and to renew acquisition locks in one request (KIP-1222)."""
    limits = {
        "maxBytes": message.max_bytes,
        "minBytes": message.min_bytes,
        "maxRecords": message.max_records,
        "maxWaitMs": wait_ms,
    }
    if not message.is_renew_ack or not any(limits.values()):
        return
    wrong = "".join(f"{name} must be set to 0, " for name, value in limits.items() if value)
    raise KafkaError(ErrorCode.invalid_request, f"{wrong}if isRenewAck is true.")


def _trouble(view: ClusterView, topic_id: UUID | None, index: int) -> tuple[ErrorCode, int]:
    """Return why this node does not serve a partition, and who leads it; ``none`` and -1 if not."""
    topic = None if topic_id is None else view.catalog.topics.by_id(topic_id)
    if topic is None:
        return ErrorCode.unknown_topic_id, -1
    code = trouble(view, topic, index)
    is_elsewhere = code is ErrorCode.not_leader_or_follower
    return code, leader_of(view, topic, index) if is_elsewhere else -1


def _leader(shape: Any, leader: int) -> Any:
    epoch = LEADER_EPOCH if leader >= 0 else -1
    return shape(leader_id=leader, leader_epoch=epoch)


def _endpoints(view: ClusterView, shape: Any, leaders: Iterable[int]) -> tuple[Any, ...]:
    nodes = [view.catalog.nodes[one] for one in sorted(leaders) if one in view.catalog.nodes]
    return tuple(
        shape(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack) for one in nodes
    )


def _lock_duration(view: ClusterView, group_id: str | None) -> timedelta:
    """Return how long a record of the group would be acquired (KIP-932)."""
    own = view.catalog.overrides_of(GROUP, group_id or "").get(LOCK_DURATION)
    if own is None:
        return view.configs.integer(f"group.{LOCK_DURATION}") * _MILLISECOND
    return clamped(LOCK_DURATION, int(own), view.configs) * _MILLISECOND


HANDLERS: Final[Mapping[int, NodeHandler]] = {
    78: share_fetch,
    79: share_acknowledge,
}
