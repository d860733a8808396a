"""An OTLP backend over HTTP that keeps what is posted to it, in this process."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics


class Sink(ThreadingHTTPServer):
    """Takes what is posted, by the path."""

    def __init__(self) -> None:
        self.posted: defaultdict[str, list[bytes]] = defaultdict(list)
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def endpoint(self) -> str:
        """The value for ``OTEL_EXPORTER_OTLP_ENDPOINT``."""
        return f"http://127.0.0.1:{self.server_port}"

    def metrics(self) -> Iterator[ResourceMetrics]:
        """Give the metrics that were posted, a process's export at a time."""
        for body in [*self.posted["/v1/metrics"]]:
            yield from ExportMetricsServiceRequest.FromString(body).resource_metrics


class _Handler(BaseHTTPRequestHandler):
    server: Sink

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        self.server.posted[self.path].append(self.rfile.read(length))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:  # type: ignore[override]
        """Say nothing."""


@contextmanager
def running() -> Iterator[Sink]:
    """Serve for as long as the ``with`` lasts."""
    with Sink() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
