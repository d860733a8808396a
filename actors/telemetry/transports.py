"""The transports of OTLP: which exporters send spans and metrics over each protocol."""

from __future__ import annotations

from dataclasses import dataclass
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


def protocol_of(signal: str, environ: Mapping[str, str]) -> str:
    """Return the protocol that the standard variables name for ``traces`` or ``metrics``."""
    names = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    return next((environ[name].strip() for name in names if environ.get(name)), DEFAULT)
