"""The transports of OTLP: which exporters send spans and metrics over each protocol."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace.export import SpanExporter

DEFAULT: Final = "http/protobuf"


@dataclass(frozen=True, slots=True)
class Transport:
    """One protocol: it is imported only when it is used."""

    spans: Callable[[], SpanExporter]
    metrics: Callable[[], MetricExporter]


def _http_spans() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _http_metrics() -> MetricExporter:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()


def _grpc_spans() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _grpc_metrics() -> MetricExporter:
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()


TRANSPORTS: Final[Mapping[str, Transport]] = {
    DEFAULT: Transport(_http_spans, _http_metrics),
    "grpc": Transport(_grpc_spans, _grpc_metrics),
}
"""By the names that OpenTelemetry gives them."""


FILE: Final = "ROLLCALL_TRACES_FILE"
"""The file for traces where no backend is configured: OpenTelemetry has no variable for one."""


def file_of(environ: Mapping[str, str]) -> Path | None:
    """Return the file for traces; None: they go to a backend, or nowhere."""
    path = environ.get(FILE, "").strip()
    others = (
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_TRACES_EXPORTER",
    )
    if not path or any(environ.get(name, "").strip() for name in others):
        return None
    return Path(path)


def protocol_of(signal: str, environ: Mapping[str, str]) -> str:
    """Return the protocol that the standard variables name for ``traces`` or ``metrics``."""
    names = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    return next((environ[name].strip() for name in names if environ.get(name)), DEFAULT)
