"""A coordinator's metrics over OTLP, exported by a thread of OpenTelemetry's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

from actors.telemetry.metrics import COUNTS, FAILURES, GAUGES, GROUP
from actors.telemetry.traces import resource_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import CallbackOptions
    from opentelemetry.sdk.metrics.export import MetricReader


class MetricsExport:
    """Exports every ``OTEL_METRIC_EXPORT_INTERVAL`` (a minute by default), and at the end."""

    def __init__(
        self,
        resource: Mapping[str, str | int],
        read: Callable[[], Mapping[str, Any]],
        reader: MetricReader | None = None,
    ) -> None:
        """``read`` gives what ``BackgroundMetrics.status`` does, in any thread."""
        self._read = read
        self._provider = MeterProvider(
            [reader or PeriodicExportingMetricReader(OTLPMetricExporter())],
            resource=resource_of(resource),
            shutdown_on_exit=False,
        )
        meter = self._provider.get_meter("rollcall")
        for name in read():
            if name.startswith(GAUGES):
                unit = "1" if "ratio" in name else "ms"
                meter.create_observable_gauge(f"{GROUP}.{name}", [self._value(name)], unit)
        for name, about in COUNTS.items():
            meter.create_observable_counter(
                f"rollcall.assignor.{name}", [self._value(f"assignor-{name}")], description=about
            )
        meter.create_observable_counter(
            "rollcall.assignor.failures", [self._failures], description=FAILURES
        )

    def close(self, timeout_s: float) -> None:
        """Deliver what there is, for about so long at most; blocks."""
        self._provider.shutdown(timeout_millis=1000 * timeout_s)

    def _value(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(self._read()[name])]

        return observe

    def _failures(self, _: CallbackOptions) -> Iterable[Observation]:
        counts = self._read()["assignor-failures"]
        return [Observation(count, {"group_type": kind}) for kind, count in counts.items()]
