"""The cluster's metrics in Prometheus' format, with names like those of Kafka exporters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from actors.metrics.row import MetricKind, parts_of
from actors.metrics.table import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client import Metric

    from actors.metrics.row import MetricRow

FAMILIES: Final = {
    MetricKind.GAUGE: GaugeMetricFamily,
    MetricKind.COUNTER: CounterMetricFamily,
    MetricKind.HISTOGRAM: HistogramMetricFamily,
}


def exposition(status: Mapping[str, Any]) -> str:
    """Return the metrics of ``rollcall status --json`` in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Status(status))
    return generate_latest(registry).decode()


class _Status:
    """A collector of Prometheus' library."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Return every metric of the table that has a value."""
        for row in ROWS:
            labels = [*row.all_labels, *(["percentile"] if row.is_by_percentile else [])]
            for name, keys in row.families.items():
                family = FAMILIES[row.kind](name, row.help, labels=labels)
                for key in keys:
                    self._add(family, row, key)
                if family.samples:
                    yield family

    def _add(self, family: Metric, row: MetricRow, key: str) -> None:
        """Add the values of one name of the status."""
        percentile = [key.rpartition("-")[2]] if row.is_by_percentile else []
        for labels, value in self._values(row, key):
            if isinstance(family, HistogramMetricFamily):
                family.add_metric(labels, [*value["buckets"].items()], value["sum"])
            else:
                assert isinstance(family, GaugeMetricFamily | CounterMetricFamily)
                family.add_metric([*labels, *percentile], row.factor * value)

    def _values(self, row: MetricRow, key: str) -> Iterator[tuple[list[str], Any]]:
        for own, part in parts_of(self._status, row.scope):
            for labels, value in row.read(part, key):
                yield [*own, *labels], value
