"""What a coordinator counts of its requests, its writes and its share state."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.telemetry.event_metrics import (
    COMMIT,
    COMMIT_S_MAX,
    UNDER_WAY_MAX,
    WRITE,
    EventMetrics,
)
from failover.partitions.partition import PartitionState
from protocol.groups.context import OffsetCounts
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    OffsetCommitResponse,
    WriteShareGroupStateResponse,
)
from tests.protocol.groups.offsets.offset_talk import MINUTE, OffsetTalk

INITIALIZE = InitializeShareGroupStateRequest.__api_key__


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_requests_and_batches_are_measured() -> None:
    metrics = EventMetrics(Clock())
    metrics.timed(0.002, 0.001)
    metrics.flushed(0.004)
    metrics.flushed(0.006)
    found = metrics.status()
    assert found["event-queue-time-ms-p50"] == 2
    assert found["event-processing-time-ms-max"] == 1
    assert found["batch-flush-time-ms-max"] == 6
    assert found["batch-flush-rate"] == 2


def test_the_event_loop_is_idle_while_it_uses_no_cpu() -> None:
    clock, thread = Clock(), Clock()
    metrics = EventMetrics(clock, thread)
    metrics.look()
    clock.now_s += 10
    thread.now_s += 2.5
    metrics.look()
    assert metrics.status()["thread-idle-ratio-avg"] == 0.75
    clock.now_s += 120
    metrics.look()
    assert metrics.status()["thread-idle-ratio-avg"] == 1


def test_partitions_are_counted_by_state() -> None:
    metrics = EventMetrics(Clock())
    states = {PartitionState.LEADER: 3, PartitionState.FOLLOWER: 4, PartitionState.LOADING: 1}
    metrics.look(states=states, queued=7)
    found = metrics.status()
    assert found["num-partitions"] == {"loading": 1, "active": 3}
    assert found["event-queue-size"] == 7


def test_offsets_are_counted_by_what_happens_to_them() -> None:
    taken = [OffsetCounts(committed=3, expired=2), OffsetCounts(deleted=1)]
    shard: Any = SimpleNamespace(take_offset_counts=taken.pop)
    metrics = EventMetrics(Clock())
    metrics.look([shard])
    metrics.look([shard])
    found = metrics.status()
    for name, count in (("commit", 3), ("expiration", 2), ("deletion", 1)):
        assert found[f"offset-{name}-count"] == found[f"offset-{name}-rate"] == count


def test_a_shard_counts_offsets() -> None:
    talk = OffsetTalk({"offsets.retention.minutes": "100"})
    talk.commit_offsets("orders", (0, 5, ""), (1, 6, ""), (99, 7, ""))
    assert talk.shard.take_offset_counts() == OffsetCounts(committed=2)
    talk.delete_offsets("orders", 0, 99)
    assert talk.shard.take_offset_counts() == OffsetCounts(deleted=1)
    talk.advance(200 * MINUTE)
    assert talk.shard.take_offset_counts() == OffsetCounts(expired=1)
    assert talk.shard.take_offset_counts() == OffsetCounts()


def replied(ticket: int, response: type, *codes: ErrorCode) -> Any:
    partitions = [SimpleNamespace(error_code=code) for code in codes]
    message = SimpleNamespace(
        results=[SimpleNamespace(partitions=partitions)],
        __api_key__=response.__api_key__,  # type: ignore[attr-defined]
    )
    return SimpleNamespace(ticket=ticket, message=message)


def test_writes_of_share_state_are_counted_and_measured() -> None:
    clock = Clock()
    metrics = EventMetrics(clock)
    none, fenced = ErrorCode.none, ErrorCode.fenced_state_epoch
    for ticket, request in ((1, WRITE), (2, WRITE), (3, INITIALIZE)):
        metrics.began(ticket, request)
    clock.now_s += 0.5
    metrics.answered(replied(1, WriteShareGroupStateResponse, none, none, fenced))
    metrics.answered(replied(3, InitializeShareGroupStateResponse, none))
    metrics.answered(replied(4, WriteShareGroupStateResponse, none))
    metrics.abandoned(2)
    metrics.answered(replied(2, WriteShareGroupStateResponse, none))
    found = metrics.status()
    assert found["share-state-write-total"] == found["share-state-write-rate"] == 3
    assert found["share-state-write-latency-ms-avg"] == pytest.approx(500)
    assert found["share-state-write-latency-ms-max"] == pytest.approx(500)


def test_few_writes_are_measured_at_a_time() -> None:
    metrics = EventMetrics(Clock())
    for ticket in range(UNDER_WAY_MAX + 1):
        metrics.began(ticket, WRITE)
    metrics.answered(replied(0, WriteShareGroupStateResponse, ErrorCode.none))
    assert metrics.status()["share-state-write-total"] == 0, "forgotten"


def commits(metrics: EventMetrics) -> int:
    found = metrics.status()["offset-commit-latency"]
    return sum(series["buckets"]["+Inf"] for series in found)


def committed(ticket: int) -> Any:
    return SimpleNamespace(ticket=ticket, message=OffsetCommitResponse)


def test_one_commit_at_a_time_is_measured_until_it_is_answered() -> None:
    clock = Clock()
    metrics = EventMetrics(clock)
    metrics.began(1, COMMIT)
    clock.now_s += 0.004
    metrics.began(2, COMMIT)
    metrics.answered(committed(2))
    assert commits(metrics) == 0
    metrics.answered(committed(1))
    (series,) = metrics.status()["offset-commit-latency"]
    assert series["labels"] == []
    assert series["sum"] == pytest.approx(0.004)
    assert series["buckets"]["0.0025"] == 0
    assert series["buckets"]["0.005"] == series["buckets"]["+Inf"] == 1
    metrics.began(3, COMMIT)
    metrics.answered(committed(3))
    assert commits(metrics) == 2


def test_a_commit_that_is_never_answered_does_not_end_the_measuring() -> None:
    clock = Clock()
    metrics = EventMetrics(clock)
    metrics.began(1, COMMIT)
    metrics.abandoned(1)
    metrics.began(2, COMMIT)
    clock.now_s += COMMIT_S_MAX
    metrics.began(3, COMMIT)
    assert list(metrics.under_way) == [3]
    metrics.answered(committed(3))
    assert commits(metrics) == 1


def test_syncs_of_the_log_are_counted() -> None:
    metrics = EventMetrics(Clock())
    metrics.sync_s.add(0.2)
    (series,) = metrics.status()["log-sync-time"]
    assert series["buckets"]["0.25"] == 1
