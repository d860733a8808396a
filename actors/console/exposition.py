"""The cluster's metrics in Prometheus' format, with names like those of Kafka exporters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from actors.telemetry.metric_table import ROWS, MetricKind, MetricScope, escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from actors.telemetry.metric_table import MetricRow

FAMILIES: Final = {MetricKind.GAUGE: GaugeMetricFamily, MetricKind.COUNTER: CounterMetricFamily}


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
            for key, end in row.names.items():
                family = FAMILIES[row.kind](
                    row.prometheus + escaped(end), row.about, labels=row.all_labels
                )
                for labels, value in self._values(row, key):
                    family.add_metric(labels, value)
                if family.samples:
                    yield family

    def _values(self, row: MetricRow, key: str) -> Iterator[tuple[list[str], float]]:
        for own, part in self._parts(row.scope):
            for labels, value in row.read(part, key):
                yield [*own, *labels], value

    def _parts(self, scope: MetricScope) -> Iterable[tuple[list[str], Mapping[str, Any]]]:
        """Return what the rows of ``scope`` read, each part with the label of its scope."""
        if scope is MetricScope.COORDINATOR:
            return [([str(row["node_id"])], row) for row in self._status["coordinators"]]
        if scope is MetricScope.WORKER:
            return [([str(n)], row) for n, row in enumerate(self._status["workers"])]
        return [([], self._status)]
