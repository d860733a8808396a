"""The lag of watched groups for Prometheus, under names that dashboards for Kafka know."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from actors.telemetry.metric_table import GROUP_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import Metric

    from protocol.watching.committed import CommittedOffsets

SERIES_MAX: Final = 10_000
"""Partitions of groups that are shown one by one; groups with the first names come first."""

LAG: Final = "kafka_consumergroup_lag"
OFFSET: Final = "kafka_consumergroup_current_offset"
LEFT_OUT: Final = "kafka_consumergroup_lag_left_out"


class LagMetrics:
    """A collector of Prometheus' library; ``ends`` returns the end of a partition, if known."""

    def __init__(self, committed: CommittedOffsets, ends: Callable[[str, int], int | None]) -> None:
        self._committed = committed
        self._ends = ends

    def collect(self) -> Iterator[Metric]:
        """Return the offsets that are known, and how far behind they are."""
        labels = (GROUP_LABEL, "topic", "partition")
        lags = GaugeMetricFamily(LAG, "Records behind the end of the partition.", labels=labels)
        offsets = GaugeMetricFamily(OFFSET, "The committed offset.", labels=labels)
        shown = 0
        for group_id, topic, partition, offset in islice(self._rows(), SERIES_MAX):
            shown += 1
            names = (group_id, topic, str(partition))
            offsets.add_metric(names, offset)
            end = self._ends(topic, partition)
            if end is not None:
                lags.add_metric(names, max(end - offset, 0))
        left_out = GaugeMetricFamily(LEFT_OUT, "Committed offsets that are not shown one by one.")
        left_out.add_metric((), len(self._committed) - shown)
        yield from (lags, offsets, left_out)

    def _rows(self) -> Iterable[tuple[str, str, int, int]]:
        for group_id in sorted(self._committed.groups()):
            for topic, partition, found in self._committed.of_group(group_id):
                yield group_id, topic, partition, found.offset


def lag_exposition(committed: CommittedOffsets, ends: Callable[[str, int], int | None]) -> str:
    """Return the lag in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(LagMetrics(committed, ends))
    return generate_latest(registry).decode()
