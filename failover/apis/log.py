"""ListOffsets, OffsetForLeaderEpoch and Fetch of topics that hold no records.

Every partition starts and ends at offset 0, in leader epoch 0. A client that is already at another
offset counts as at the end: the offset was committed elsewhere or by hand, and OFFSET_OUT_OF_RANGE
would make the client reset it and commit over it (docs/decisions/empty-partitions.md). A fetch is
parked for as long as the client allows: nothing can complete it earlier.

Fetch sessions (KIP-227) are not kept: a request for a new session gets the whole answer and session
id 0. Clients read that as "no session" and continue with full requests. Kafka does the same once
its session cache is full. A session saves bytes where many partitions occasionally have records;
here it would only cost memory and be more state to lose.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from failover.apis.metadata import LEADER_EPOCH
from failover.catalogue.cluster_view import DelayedResponse, leader_of
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    NodeEndpoint,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kio.static.protocol import Entity

    from failover.catalogue.cluster_view import ClusterView, NodeHandler
    from protocol.groups.effects import Request
    from protocol.groups.topics import Topic

LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4

SPECIAL_SINCE: Final[Mapping[int, int]] = {
    LATEST: 1,
    EARLIEST: 1,
    -3: 7,
    EARLIEST_LOCAL: 8,
    -5: 9,
    -6: 11,
}
"""The negative timestamps with a meaning, and the ListOffsets version that introduced each."""

AT_AN_END: Final = frozenset({LATEST, EARLIEST, EARLIEST_LOCAL})
"""Timestamps that ask for an end of the log; any other finds nothing in an empty one."""

TOPIC_IDS_SINCE: Final = 13
"""The first Fetch version in which topics are given by id."""

ENDPOINTS_SINCE: Final = 16
"""The first Fetch version that says where the leader is (KIP-951)."""

NO_END: Final = 2**63 - 1
"""End of every leader epoch: no client's position is beyond it."""

READ_COMMITTED: Final = 1
NO_OFFSET: Final = -1
_MILLISECOND: Final = timedelta(milliseconds=1)


def list_offsets(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Return where partitions begin and end."""
    message = cast("ListOffsetsRequest", request.message)
    counts = Counter(
        (topic.name, partition.partition_index)
        for topic in message.topics
        for partition in topic.partitions
    )
    topics = []
    for topic in message.topics:
        known = view.catalog.topics.by_name(topic.name)
        answers = []
        for partition in topic.partitions:
            if counts[topic.name, partition.partition_index] > 1:
                code = ErrorCode.invalid_request
            elif _is_unsupported(partition.timestamp, request.api_version):
                code = ErrorCode.unsupported_version
            else:
                asked = (partition.partition_index, partition.current_leader_epoch)
                code = trouble(view, known, *asked)
            answers.append(_listed(partition, code))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(answers)))
    return ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


def _is_unsupported(timestamp: int, api_version: int) -> bool:
    if timestamp >= 0:
        return False
    return timestamp not in SPECIAL_SINCE or api_version < SPECIAL_SINCE[timestamp]


def _listed(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    is_found = code is ErrorCode.none and asked.timestamp in AT_AN_END
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=code,
        timestamp=-1,
        offset=0 if is_found else NO_OFFSET,
        leader_epoch=LEADER_EPOCH if is_found else -1,
    )


def trouble(
    view: ClusterView, topic: Topic | None, index: int, leader_epoch: int = -1
) -> ErrorCode:
    """Return why this node cannot answer for a partition, ``none`` when it can.

    ``leader_epoch`` is what the client believes, -1 when it does not say (KIP-320).
    """
    if topic is None or not 0 <= index < topic.partitions:
        return ErrorCode.unknown_topic_or_partition
    if leader_epoch not in (-1, LEADER_EPOCH):
        is_newer = leader_epoch > LEADER_EPOCH
        return ErrorCode.unknown_leader_epoch if is_newer else ErrorCode.fenced_leader_epoch
    if leader_of(view, topic, index) != view.node_id:
        return ErrorCode.not_leader_or_follower
    return ErrorCode.none


def offset_for_leader_epoch(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Return where a leader epoch ends: nowhere, so that no client finds its position truncated.

    Clients ask this of offsets that were committed with an epoch, which may come from another
    cluster (KIP-320).
    """
    message = cast("OffsetForLeaderEpochRequest", request.message)
    topics = tuple(
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=tuple(
                _epoch_end(view, view.catalog.topics.by_name(topic.topic), partition)
                for partition in topic.partitions
            ),
        )
        for topic in message.topics
    )
    return OffsetForLeaderEpochResponse(throttle_time=NO_THROTTLE, topics=topics)


def _epoch_end(
    view: ClusterView, known: Topic | None, asked: OffsetForLeaderPartition
) -> EpochEndOffset:
    code = trouble(view, known, asked.partition, asked.current_leader_epoch)
    is_found = code is ErrorCode.none and asked.leader_epoch >= 0
    return EpochEndOffset(
        error_code=code,
        partition=asked.partition,
        leader_epoch=asked.leader_epoch if is_found else -1,
        end_offset=NO_END if is_found else NO_OFFSET,
    )


def fetch(view: ClusterView, request: Request, now_ms: int) -> Entity | DelayedResponse:
    """Return no records, after ``max_wait`` unless there is an error to report at once."""
    message = cast("FetchRequest", request.message)
    if message.session_epoch > 0:
        code = ErrorCode.fetch_session_id_not_found
        return FetchResponse(throttle_time=NO_THROTTLE, error_code=code, responses=())
    by_id = request.api_version >= TOPIC_IDS_SINCE
    is_committed = message.isolation_level == READ_COMMITTED
    topics = tuple(_fetched(view, topic, by_id, is_committed) for topic in message.topics)
    partitions = [partition for topic in topics for partition in topic.partitions]
    failed = [one for one in partitions if one.error_code is not ErrorCode.none]
    response = FetchResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        session_id=0,
        responses=topics,
        node_endpoints=_endpoints(view, failed) if request.api_version >= ENDPOINTS_SINCE else (),
    )
    wait_ms = message.max_wait // _MILLISECOND
    if failed or not partitions or message.min_bytes <= 0 or wait_ms <= 0:
        return response
    return DelayedResponse(now_ms + wait_ms, response)


def _fetched(
    view: ClusterView, asked: FetchTopic, by_id: bool, is_committed: bool
) -> FetchableTopicResponse:
    topics = view.catalog.topics
    if by_id:
        known = None if asked.topic_id is None else topics.by_id(asked.topic_id)
    else:
        known = topics.by_name(asked.topic)
    if known is None and by_id:
        answers = tuple(
            _failed(partition.partition, ErrorCode.unknown_topic_id)
            for partition in asked.partitions
        )
    else:
        answers = tuple(
            _fetched_partition(view, known, partition, is_committed)
            for partition in asked.partitions
        )
    return FetchableTopicResponse(topic_id=asked.topic_id, topic=asked.topic, partitions=answers)


def _fetched_partition(
    view: ClusterView, known: Topic | None, asked: FetchPartition, is_committed: bool
) -> PartitionData:
    index = asked.partition
    code = trouble(view, known, index, asked.current_leader_epoch)
    if code is ErrorCode.none:
        if asked.fetch_offset >= 0:
            return _empty(index, asked.fetch_offset, is_committed)
        return _failed(index, ErrorCode.offset_out_of_range)
    if code is ErrorCode.unknown_topic_or_partition or known is None:
        return _failed(index, code)
    return _failed(index, code, leader_of(view, known, index))


@lru_cache(maxsize=16384)
def _empty(index: int, offset: int, is_committed: bool) -> PartitionData:
    """Answer for an empty partition whose end is the client's own position: always the same."""
    return PartitionData(
        partition_index=index,
        error_code=ErrorCode.none,
        high_watermark=offset,
        last_stable_offset=offset,
        log_start_offset=0,
        aborted_transactions=() if is_committed else None,
        records=b"",
    )


def _failed(index: int, code: ErrorCode, leader: int = -1) -> PartitionData:
    """Answer with an error, and with the leader when that is another node (KIP-951)."""
    epoch = LEADER_EPOCH if leader >= 0 else -1
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        current_leader=LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
        aborted_transactions=None,
        records=b"",
    )


def _endpoints(view: ClusterView, failed: list[PartitionData]) -> tuple[NodeEndpoint, ...]:
    leaders = dict.fromkeys(partition.current_leader.leader_id for partition in failed)
    nodes = [view.catalog.nodes[leader] for leader in leaders if leader in view.catalog.nodes]
    return tuple(NodeEndpoint(node_id=one.node_id, host=one.host, port=one.port) for one in nodes)


HANDLERS: Final[Mapping[int, NodeHandler]] = {
    1: fetch,
    2: list_offsets,
    23: offset_for_leader_epoch,
}
