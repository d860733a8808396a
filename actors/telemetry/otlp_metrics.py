"""Exports a coordinator's metrics over OTLP, in a thread of OpenTelemetry."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

from actors.telemetry.metric_table import GROUP_LABEL, ROWS, MetricKind
from actors.telemetry.traces import resource_of
from actors.telemetry.transports import TRANSPORTS, protocol_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import CallbackOptions, Meter
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader

    from actors.telemetry.histograms import Histogram
    from actors.telemetry.metric_table import MetricRow

ATTRIBUTES: Final = {GROUP_LABEL: "messaging.consumer.group.name"}
"""Attributes of OpenTelemetry's conventions that are called otherwise in Prometheus."""


class MetricsExport:
    """Exports every ``OTEL_METRIC_EXPORT_INTERVAL`` (default: a minute) and when it is closed."""

    def __init__(
        self,
        resource: Mapping[str, str | int],
        read: Callable[[], Mapping[str, Any]],
        histograms: Mapping[str, Histogram],
        reader: MetricReader | None = None,
    ) -> None:
        """``read`` returns ``Coordinator.metrics``, in any thread.

        What is added to ``histograms`` from now on is exported, too.
        """
        self._read = read
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
            if row.kind is MetricKind.HISTOGRAM:
                self._tell(row, meter, histograms[row.key])
                continue
            for key, end in row.names.items() if row.otlp else ():
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
            theirs.record(seconds, _attributes(row, labels))

        histogram.record = record

    def _observer(
        self, row: MetricRow, key: str
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return [
                Observation(value, _attributes(row, labels))
                for labels, value in row.read({"metrics": self._read()}, key)
            ]

        return observe


def _exporter() -> MetricExporter:
    return TRANSPORTS[protocol_of("metrics", os.environ)].metrics()


def _attributes(row: MetricRow, labels: Iterable[str]) -> dict[str, str]:
    return {
        ATTRIBUTES.get(name, name): value for name, value in zip(row.labels, labels, strict=True)
    }
