"""Takes what is exported over OTLP (HTTP), and keeps it."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)


class OtlpReceiver(ThreadingHTTPServer):
    """An endpoint; ``posted`` are the bodies by path."""

    def __init__(self) -> None:
        self.posted: defaultdict[str, list[bytes]] = defaultdict(list)
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Return the newest metrics by name, of each instance that exports some."""
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        for body in list(self.posted["/v1/metrics"]):
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                named = {each.key: each.value.string_value for each in resource.resource.attributes}
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        found[named.get("service.instance.id", "")][metric.name] = metric
        return found


@contextmanager
def receiving() -> Iterator[OtlpReceiver]:
    """Run a receiver in a thread."""
    with OtlpReceiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: OtlpReceiver

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        self.server.posted[self.path].append(self.rfile.read(length))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:  # type: ignore[override]
        """Say nothing."""
