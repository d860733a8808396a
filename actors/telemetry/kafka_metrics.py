"""Kafka's metrics of its coordinators (4.3.1) that Rollcall does not have, each with the reason."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from actors.metrics.names import GROUP, SHARE

if TYPE_CHECKING:
    from collections.abc import Mapping

YAMMER: Final = "GroupMetadataManager"
"""The type of Kafka's older metrics."""

_NO_BATCHES: Final = (
    "Nothing lingers: the records of all requests of a turn are written together at its end."
)
_NO_BUFFERS: Final = "Records are not gathered in buffers that are kept for the next batch."
_NO_LOAD: Final = (
    "A follower applies records as they are committed, so a new leader has none to load."
)
_OLD: Final = "Kafka's older metric: `classic-group-count` has the same."
_SHARED: Final = (
    "Both coordinators share one event loop and one log: `group-coordinator-metrics` has it."
)
_PURGATORY: Final = (
    "A response waits for the sync, the majority and the lease, and may also wait for members; the"
    " parts of this are not measured for each request."
)

NOT_SERVED: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        (GROUP, "partition-load-time-max"): _NO_LOAD,
        (GROUP, "partition-load-time-avg"): _NO_LOAD,
        (GROUP, "event-purgatory-time-ms"): _PURGATORY,
        (GROUP, "batch-linger-time-ms"): _NO_BATCHES,
        (GROUP, "batch-buffer-cache-size-bytes"): _NO_BUFFERS,
        (GROUP, "batch-buffer-cache-discard-count"): _NO_BUFFERS,
        (YAMMER, "NumGroups"): "Kafka's older metric: `group-count` has the same.",
        (YAMMER, "NumOffsets"): "The offsets of all groups are not counted.",
        (YAMMER, "NumGroupsPreparingRebalance"): _OLD,
        (YAMMER, "NumGroupsCompletingRebalance"): _OLD,
        (YAMMER, "NumGroupsStable"): _OLD,
        (YAMMER, "NumGroupsDead"): _OLD,
        (YAMMER, "NumGroupsEmpty"): _OLD,
        (SHARE, "last-pruned-offset"): (
            "Share state is compacted by key on every replica: no prefix of the topic is pruned."
        ),
        (SHARE, "num-partitions"): _SHARED,
        (SHARE, "partition-load-time-max"): _NO_LOAD,
        (SHARE, "partition-load-time-avg"): _NO_LOAD,
        (SHARE, "thread-idle-ratio-avg"): _SHARED,
        (SHARE, "event-queue-size"): _SHARED,
        (SHARE, "event-queue-time-ms"): _SHARED,
        (SHARE, "event-processing-time-ms"): _SHARED,
        (SHARE, "event-purgatory-time-ms"): _PURGATORY,
        (SHARE, "batch-linger-time-ms"): _NO_BATCHES,
        (SHARE, "batch-flush-time-ms"): _SHARED,
        (SHARE, "batch-flush-rate"): _SHARED,
        (SHARE, "batch-buffer-cache-size-bytes"): _NO_BUFFERS,
        (SHARE, "batch-buffer-cache-discard-count"): _NO_BUFFERS,
    }
)
"""The reason by Kafka's group and name; names of percentiles are without their suffix."""
