"""The names of metrics in the status, and what the types of groups have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP: Final = "group-coordinator-metrics"
SHARE: Final = "share-coordinator-metrics"
"""The groups that Kafka's metrics are in."""

PERCENTILES: Final[Mapping[str, float]] = {
    "p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0,
}  # fmt: skip

RUNS: Final = "assignor-runs"
RUNS_IN_PLACE: Final = "assignor-runs-in-place"
RUNS_RETRIED: Final = "assignor-runs-retried"
FAILURES: Final = "assignor-failures"
IDLE_RATIO: Final = "background-thread-idle-ratio-avg"
QUEUE_TIME_MS: Final = "background-queue-time-ms"
PROCESSING_TIME_MS: Final = "background-processing-time-ms"
HELD_TIME_MS: Final = "event-loop-held-time-ms"


GROUP_COUNT: Final = "group-count"

THREAD_IDLE_RATIO: Final = "thread-idle-ratio-avg"
EVENT_QUEUE_SIZE: Final = "event-queue-size"
EVENT_QUEUE_TIME_MS: Final = "event-queue-time-ms"
EVENT_PROCESSING_TIME_MS: Final = "event-processing-time-ms"
FLUSH_TIME_MS: Final = "batch-flush-time-ms"
FLUSH_RATE: Final = "batch-flush-rate"
PARTITIONS: Final = "num-partitions"
SHARE_WRITES: Final = "share-state-write-total"
SHARE_WRITE_RATE: Final = "share-state-write-rate"
SHARE_WRITE_LATENCY_MS: Final = "share-state-write-latency-ms"

REBALANCE_DURATION: Final = "rebalance-duration"
COMMIT_LATENCY: Final = "offset-commit-latency"
SYNC_TIME: Final = "log-sync-time"

ELECTIONS: Final = "leader-elections"
RESIGNATIONS: Final = "leader-resignations"

GROUP_MEMBERS: Final = "consumergroup-members"
GROUP_STATE: Final = "consumergroup-state"
GROUP_REBALANCING: Final = "consumergroup-rebalancing"
GROUP_REBALANCES: Final = "consumergroup-rebalances"
GROUPS_LEFT_OUT: Final = "consumergroups-left-out"
MEMBERS_LEFT_OUT: Final = "consumergroups-left-out-members"
GROUP_LABEL: Final = "consumergroup"
"""The label with the name of a group, as in widely used exporters for Kafka."""

OFFSET_COUNTS: Final[Mapping[str, str]] = {
    "offset-commit": "committed",
    "offset-expiration": "expired",
    "offset-deletion": "deleted",
}
"""What happens to offsets, and its field in ``OffsetCounts`` of the core."""


LEASE_MS: Final = "lease_ms"
WAITING_MS: Final = "waiting_ms"
EPOCH: Final = "epoch"
"""What the status says of the leader of a partition."""

LAG: Final = "consumergroup-lag"
OFFSET: Final = "consumergroup-current-offset"
LAG_LEFT_OUT: Final = "consumergroup-lag-left-out"
OFFSETS_LEFT_OUT: Final = "consumergroup-offsets-left-out"
"""What is known of the offsets of a watched cluster."""

PARTITION_LABELS: Final = ("topic", "partition")
"""The labels of a partition of a watched topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTypeMetrics:
    """The metrics of one type of group.

    ``states`` are those that ListGroups tells. ``count`` has the groups by state; ``rebalance``
    and "-count" or "-rate" are how often they rebalance. ``is_count_kafkas``: Kafka has ``count``.
    """

    group_type: str
    states: tuple[str, ...]
    rebalance: str
    is_count_kafkas: bool = True

    @property
    def count_key(self) -> str:
        """The name of the number of groups by state."""
        return f"{self.group_type}-group-count"

    @property
    def rebalances_key(self) -> str:
        """The name of the number of rebalances."""
        return f"{self.rebalance}-count"

    @property
    def rebalance_rate_key(self) -> str:
        """The name of the rebalances per second."""
        return f"{self.rebalance}-rate"


_RECONCILED: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")

GROUP_TYPES: Final = (
    GroupTypeMetrics(
        group_type="classic",
        states=("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
        rebalance="group-completed-rebalance",
        is_count_kafkas=False,
    ),
    GroupTypeMetrics(
        group_type="consumer", states=_RECONCILED, rebalance="consumer-group-rebalance"
    ),
    GroupTypeMetrics(
        group_type="share",
        states=("Empty", "Stable", "Dead"),
        rebalance="share-group-rebalance",
    ),
    GroupTypeMetrics(
        group_type="streams",
        states=(*_RECONCILED, "NotReady"),
        rebalance="streams-group-rebalance",
    ),
)
"""One row for each type of group, with Kafka's names: a new type is a row here."""
