"""Exports a coordinator's metrics over OTLP, in a thread of OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

from actors.telemetry.metric_table import ROWS, MetricKind
from actors.telemetry.traces import resource_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import CallbackOptions
    from opentelemetry.sdk.metrics.export import MetricReader

    from actors.telemetry.metric_table import MetricRow


class MetricsExport:
    """Exports every ``OTEL_METRIC_EXPORT_INTERVAL`` (default: a minute) and when it is closed."""

    def __init__(
        self,
        resource: Mapping[str, str | int],
        read: Callable[[], Mapping[str, Any]],
        reader: MetricReader | None = None,
    ) -> None:
        """``read`` returns ``BackgroundMetrics.status``, in any thread."""
        self._read = read
        self._provider = MeterProvider(
            [reader or PeriodicExportingMetricReader(OTLPMetricExporter())],
            resource=resource_of(resource),
            shutdown_on_exit=False,
        )
        meter = self._provider.get_meter("rollcall")
        makers = {
            MetricKind.GAUGE: meter.create_observable_gauge,
            MetricKind.COUNTER: meter.create_observable_counter,
        }
        for row in ROWS:
            for key, end in row.names.items() if row.otlp else ():
                makers[row.kind](f"{row.otlp}{end}", [self._observer(row, key)], row.unit, row.help)

    def close(self, timeout_s: float) -> None:
        """Deliver the last metrics, for about ``timeout_s`` at most; blocks."""
        self._provider.shutdown(timeout_millis=1000 * timeout_s)

    def _observer(
        self, row: MetricRow, key: str
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return [
                Observation(value, dict(zip(row.labels, labels, strict=True)))
                for labels, value in row.read({"metrics": self._read()}, key)
            ]

        return observe
