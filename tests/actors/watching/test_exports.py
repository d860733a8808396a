"""Traces and metrics of a watched Kafka arrive at an OTLP endpoint."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from actors.telemetry.group_metrics import GroupMetrics
from actors.watching.exports import WatchExports
from actors.watching.session import Options, WatchSession
from tests.actors.watching.test_session import BOOTSTRAP, START, A, B, Log, Told
from tests.protocol.watching.records import generation

if TYPE_CHECKING:
    from collections.abc import Iterator


class Collector(ThreadingHTTPServer):
    """Takes what is posted."""

    def __init__(self) -> None:
        self.posted: defaultdict[str, list[bytes]] = defaultdict(list)
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        self.server.posted[self.path].append(self.rfile.read(length))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:  # type: ignore[override]
        """Say nothing."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        yield server
        server.shutdown()
        thread.join()


def test_traces_and_metrics_arrive(collector: Collector) -> None:
    metrics, log = GroupMetrics(), Log(*START, generation(2, A, B))
    with closing(WatchExports(BOOTSTRAP, metrics)) as exports:
        options = Options(
            bootstrap=BOOTSTRAP,
            is_from_beginning=True,
            observe=exports.observe,
            metrics=metrics,
        )
        WatchSession(log, options, Told()).run(log.stop)
    roots = []
    for body in collector.posted["/v1/traces"]:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {each.key: each.value.string_value for each in resource.resource.attributes}
            assert named["rollcall.watched.bootstrap"] == BOOTSTRAP
            spans = [span for scope in resource.scope_spans for span in scope.spans]
            roots += [span for span in spans if not span.parent_span_id]
    said = [{each.key: each.value.string_value for each in root.attributes} for root in roots]
    assert [root.name for root in roots] == ["rebalance: member joined"] * 2
    assert [each["rollcall.rebalance.inferred"] for each in said] == [
        "it is new in generation 1",
        "it is new in generation 2",
    ]
    names = {
        metric.name
        for body in collector.posted["/v1/metrics"]
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert {"rollcall.rebalance-duration", "kafka.consumer_group.members"} <= names
