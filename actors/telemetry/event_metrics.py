"""A coordinator's requests, its writes and its share state in numbers, under Kafka's names.

Kafka calls a request an event. Values are counted on the event loop; exporters may read them in any
thread.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Final

from actors.metrics.names import (
    COMMIT_LATENCY,
    EVENT_PROCESSING_TIME_MS,
    EVENT_QUEUE_SIZE,
    EVENT_QUEUE_TIME_MS,
    FLUSH_RATE,
    FLUSH_TIME_MS,
    OFFSET_COUNTS,
    PARTITIONS,
    SHARE_WRITE_LATENCY_MS,
    SHARE_WRITE_RATE,
    SHARE_WRITES,
    SYNC_TIME,
    THREAD_IDLE_RATIO,
)
from actors.telemetry.group_metrics import RecentRate
from actors.telemetry.histograms import Histogram
from actors.telemetry.metrics import Samples, percentile_rows
from failover.partitions.partition import PartitionState
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    InitializeShareGroupStateRequest,
    OffsetCommitRequest,
    WriteShareGroupStateRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from protocol.groups.effects import Reply, Ticket
    from protocol.groups.shard import GroupShard

COMMIT: Final = OffsetCommitRequest.__api_key__
WRITE: Final = WriteShareGroupStateRequest.__api_key__
SHARE_WRITE_APIS: Final = frozenset({WRITE, InitializeShareGroupStateRequest.__api_key__})
"""The requests that write share state: Kafka counts those of both."""

TIMED_APIS: Final = SHARE_WRITE_APIS | {COMMIT}
"""The requests that are measured until they are answered; of commits, one at a time."""

COMMIT_S_MAX: Final = 60.0
"""After this time the measured commit gives way to another one."""

NO_TICKET: Final = -1
UNDER_WAY_MAX: Final = 4_096
"""How many of them are measured at a time."""

STATES: Final[Mapping[PartitionState, str]] = {
    PartitionState.LOADING: "loading",
    PartitionState.LEADER: "active",
}
"""Kafka's names of the states that partitions of a coordinator have here too."""


class EventMetrics:
    """The event loop of one coordinator: what waits for it, how busy it is, what it writes.

    ``under_way`` are the requests of :data:`TIMED_APIS` that are measured and not answered yet,
    with the time when they began: while there are none, no answer need be looked at.
    """

    def __init__(
        self,
        clock_s: Callable[[], float] = time.monotonic,
        thread_s: Callable[[], float] = time.thread_time,
    ) -> None:
        """``thread_s`` returns the CPU time of the event loop's thread."""
        self.queue_ms = Samples(clock_s)
        self.processing_ms = Samples(clock_s)
        self.flush_ms = Samples(clock_s)
        self._clock_s = clock_s
        self._thread_s = thread_s
        self._last_s: float | None = None
        self._busy_us = RecentRate(clock_s)
        self._flushes = RecentRate(clock_s)
        self._offsets = dict.fromkeys(OFFSET_COUNTS, 0)
        self._offset_rates = {name: RecentRate(clock_s) for name in OFFSET_COUNTS}
        self._partitions = dict.fromkeys(STATES.values(), 0)
        self._queued = 0
        self._share_writes = 0
        self._share_write_rate = RecentRate(clock_s)
        self._share_write_ms = Samples(clock_s)
        self.under_way: dict[Ticket, float] = {}
        self.commit_s = Histogram()
        self.sync_s = Histogram()
        self._commit: Ticket = NO_TICKET

    def timed(self, queued_s: float, processed_s: float) -> None:
        """Count a request: how long it waited, and how long it took."""
        self.queue_ms.add(1000 * queued_s)
        self.processing_ms.add(1000 * processed_s)

    def flushed(self, seconds: float) -> None:
        """Count a batch of records that was written to the log."""
        self.flush_ms.add(1000 * seconds)
        self._flushes.add(1)

    def began(self, ticket: Ticket, api_key: int) -> None:
        """Begin to measure a request of :data:`TIMED_APIS`, unless it is one commit of several."""
        if api_key == COMMIT:
            measured_s = self.under_way.get(self._commit, -math.inf)
            if self._clock_s() - measured_s < COMMIT_S_MAX:
                return
            self.under_way.pop(self._commit, None)
            self._commit = ticket
        if len(self.under_way) >= UNDER_WAY_MAX:
            self.under_way.clear()
            self._commit = ticket if api_key == COMMIT else NO_TICKET
        self.under_way[ticket] = self._clock_s()

    def answered(self, reply: Reply) -> None:
        """Count what a request wrote, and how long a write took until it was committed."""
        began_s = self.under_way.pop(reply.ticket, None)
        if began_s is None:
            return
        if reply.ticket == self._commit:
            self._commit = NO_TICKET
            self.commit_s.add(self._clock_s() - began_s)
            return
        message: Any = reply.message
        results = getattr(message, "results", ())
        codes = [each.error_code for topic in results for each in topic.partitions]
        count = codes.count(ErrorCode.none)
        self._share_writes += count
        self._share_write_rate.add(count)
        if message.__api_key__ == WRITE:
            self._share_write_ms.add(1000 * (self._clock_s() - began_s))

    def abandoned(self, ticket: Ticket) -> None:
        """Note that nobody waits for a response."""
        self.under_way.pop(ticket, None)

    def look(
        self,
        shards: Iterable[GroupShard] = (),
        states: Mapping[PartitionState, int] | None = None,
        queued: int = 0,
    ) -> None:
        """Look at the coordinator: call it on the event loop, about twice a second.

        ``queued`` requests wait. What a shard counted since the last look is lost if the
        leadership ends before the next one.
        """
        spent_s = self._thread_s()
        if self._last_s is not None:
            self._busy_us.add(int(1_000_000 * (spent_s - self._last_s)))
        self._last_s = spent_s
        self._queued = queued
        self._partitions = {name: (states or {}).get(each, 0) for each, name in STATES.items()}
        for shard in shards:
            counts = shard.take_offset_counts()
            for name, field in OFFSET_COUNTS.items():
                count = getattr(counts, field)
                if count:
                    self._offsets[name] += count
                    self._offset_rates[name].add(count)

    def histograms(self) -> dict[str, Histogram]:
        """Return what is counted in buckets."""
        return {COMMIT_LATENCY: self.commit_s, SYNC_TIME: self.sync_s}

    def status(self) -> dict[str, Any]:
        """Return all metrics as plain values."""
        latency_ms = self._share_write_ms.values()
        return {
            THREAD_IDLE_RATIO: round(max(1 - self._busy_us.per_second() / 1_000_000, 0.0), 6),
            EVENT_QUEUE_SIZE: self._queued,
            **percentile_rows(EVENT_QUEUE_TIME_MS, self.queue_ms),
            **percentile_rows(EVENT_PROCESSING_TIME_MS, self.processing_ms),
            **percentile_rows(FLUSH_TIME_MS, self.flush_ms),
            FLUSH_RATE: round(self._flushes.per_second(), 3),
            PARTITIONS: dict(self._partitions),
            **{f"{name}-count": count for name, count in self._offsets.items()},
            **{
                f"{name}-rate": round(rate.per_second(), 3)
                for name, rate in self._offset_rates.items()
            },
            **{name: each.status() for name, each in self.histograms().items()},
            SHARE_WRITES: self._share_writes,
            SHARE_WRITE_RATE: round(self._share_write_rate.per_second(), 3),
            f"{SHARE_WRITE_LATENCY_MS}-avg": round(_mean(latency_ms), 3),
            f"{SHARE_WRITE_LATENCY_MS}-max": round(max(latency_ms, default=0.0), 3),
        }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
