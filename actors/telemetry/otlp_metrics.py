"""Exports the metrics of one process over OTLP, in a thread of OpenTelemetry."""

from __future__ import annotations

import os
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

from actors.metrics.names import GROUP_LABEL
from actors.metrics.row import MetricKind, MetricSource
from actors.metrics.table import ROWS
from actors.telemetry.traces import resource_of
from actors.telemetry.transports import TRANSPORTS, protocol_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from opentelemetry.metrics import CallbackOptions, Meter
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader

    from actors.metrics.row import MetricRow, MetricScope
    from actors.telemetry.histograms import Histogram

    Parts = Sequence[tuple[tuple[str, ...], Mapping[str, Any]]]

ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        GROUP_LABEL: "messaging.consumer.group.name",
        "topic": "messaging.destination.name",
        "partition": "messaging.destination.partition.id",
    }
)
"""Attributes of OpenTelemetry's conventions, of rows about a group, by their labels."""

KEPT_S: Final = 0.2
"""How long what was read serves: an export asks for each metric in turn."""


class MetricsExport:
    """Exports every ``OTEL_METRIC_EXPORT_INTERVAL`` (default: a minute) and when it is closed."""

    def __init__(
        self,
        resource: Mapping[str, str | int],
        read: Callable[[MetricScope], Parts],
        histograms: Mapping[str, Histogram],
        reader: MetricReader | None = None,
        sources: Collection[MetricSource] = (MetricSource.COORDINATOR,),
    ) -> None:
        """``read`` returns what the rows of a scope read, in any thread.

        Each part has the label of its scope, or none if the resource tells it. The rows of
        ``sources`` are exported. What is added to ``histograms`` from now on is exported, too.
        """
        self._read = read
        self._kept: dict[MetricScope, tuple[float, Parts]] = {}
        self._provider = MeterProvider(
            [reader or PeriodicExportingMetricReader(_exporter())],
            resource=resource_of(resource),
            shutdown_on_exit=False,
        )
        meter = self._provider.get_meter("rollcall")
        makers = {
            MetricKind.GAUGE: meter.create_observable_gauge,
            MetricKind.COUNTER: meter.create_observable_counter,
        }
        for row in ROWS:
            if row.source not in sources:
                continue
            if row.kind is MetricKind.HISTOGRAM:
                self._tell(row, meter, histograms[row.key])
                continue
            for key, end in row.names.items():
                makers[row.kind](f"{row.otlp}{end}", [self._observer(row, key)], row.unit, row.help)

    def close(self, timeout_s: float) -> None:
        """Deliver the last metrics, for about ``timeout_s`` at most; blocks."""
        self._provider.shutdown(timeout_millis=1000 * timeout_s)

    def _tell(self, row: MetricRow, meter: Meter, histogram: Histogram) -> None:
        """Let a histogram tell its values to OpenTelemetry's, which has the same buckets."""
        theirs = meter.create_histogram(
            row.otlp, row.unit, row.help, explicit_bucket_boundaries_advisory=histogram.bounds_s
        )

        def record(seconds: float, labels: tuple[str, ...]) -> None:
            theirs.record(seconds, _attributes(row.labels, labels))

        histogram.record = record

    def _observer(
        self, row: MetricRow, key: str
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return [
                Observation(
                    value, _attributes(row.all_labels if own else row.labels, (*own, *labels))
                )
                for own, part in self._parts(row.scope)
                for labels, value in row.read(part, key)
            ]

        return observe

    def _parts(self, scope: MetricScope) -> Parts:
        until_s, parts = self._kept.get(scope, (0.0, ()))
        if time.monotonic() >= until_s:
            parts = self._read(scope)
            self._kept[scope] = time.monotonic() + KEPT_S, parts
        return parts


def _exporter() -> MetricExporter:
    return TRANSPORTS[protocol_of("metrics", os.environ)].metrics()


def _attributes(names: Sequence[str], labels: Iterable[str]) -> dict[str, str]:
    convention = ATTRIBUTES if GROUP_LABEL in names else {}
    return {convention.get(name, name): value for name, value in zip(names, labels, strict=True)}
