"""The transports of OTLP: which exporters send spans and metrics over each protocol."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace.export import SpanExporter

DEFAULT: Final = "http/protobuf"


@dataclass(frozen=True, slots=True)
class Transport:
    """One protocol: imported only when it is used. ``address`` is where it sends by default."""

    spans: Callable[[], SpanExporter]
    metrics: Callable[[], MetricExporter]
    address: str


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
    DEFAULT: Transport(_http_spans, _http_metrics, "http://localhost:4318"),
    "grpc": Transport(_grpc_spans, _grpc_metrics, "http://localhost:4317"),
}
"""By the names that OpenTelemetry gives them."""


FILE: Final = "ROLLCALL_TRACES_FILE"
"""The file for traces where no backend is configured: OpenTelemetry has no variable for one."""


def file_of(environ: Mapping[str, str]) -> Path | None:
    """Return the file for traces that is asked for; None: they go to a backend, or nowhere."""
    path = environ.get(FILE, "").strip()
    return Path(path) if path and not _says_where(environ) else None


def own_file_of(environ: Mapping[str, str], own: Path | None) -> Path | None:
    """Return a process's own file for traces, if nothing says whether and where there are any."""
    if is_disabled(environ) or environ.get(FILE, "").strip() or _says_where(environ):
        return None
    return own


def is_disabled(environ: Mapping[str, str]) -> bool:
    """Whether the environment switches telemetry off."""
    return environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _says_where(environ: Mapping[str, str]) -> bool:
    names = (
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_TRACES_EXPORTER",
    )
    return any(environ.get(name, "").strip() for name in names)


def destination(environ: Mapping[str, str], own: Path | None = None) -> str:
    """Return where traces that are exported go; of an address only what cannot be a secret.

    Backends take keys in the path, the query and the user's part of an address. ``own`` is the
    file of a process for traces that nothing else is said of.
    """
    path = file_of(environ)
    if path is not None:
        return f"to files: {file_of_process(path, '<pid>')}"
    if (path := own_file_of(environ, own)) is not None:
        return f"to files: {path.with_stem('<process>')}"
    protocol = protocol_of("traces", environ)
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    given = next((environ[name].strip() for name in names if environ.get(name, "").strip()), "")
    address = given or TRANSPORTS[protocol].address
    scheme, _, rest = address.rpartition("://")
    parts = urlsplit(f"//{rest}")
    where = parts.netloc.rpartition("@")[2]
    return f"to {scheme}://{where} by {protocol}" if scheme else f"to {where} by {protocol}"


def file_of_process(path: Path, pid: int | str) -> Path:
    """Return the file of one process: none can rotate the file of another."""
    return path.with_name(f"{path.stem}-{pid}{path.suffix}")


def protocol_of(signal: str, environ: Mapping[str, str]) -> str:
    """Return the protocol that the standard variables name for ``traces`` or ``metrics``."""
    names = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    return next((environ[name].strip() for name in names if environ.get(name)), DEFAULT)
