"""Traces and metrics of a watched Kafka arrive at an OTLP endpoint."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from actors.metrics.names import LAG
from actors.telemetry.group_metrics import GroupMetrics
from actors.watching.exports import WatchExports
from actors.watching.session import Options, WatchSession
from tests.actors.watching.test_session import BOOTSTRAP, START, A, B, Log, Told
from tests.otlp_sink import Sink, running
from tests.protocol.watching.records import generation

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    with running() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.endpoint)
        yield server


def test_traces_and_metrics_arrive(sink: Sink) -> None:
    metrics, log = GroupMetrics(), Log(*START, generation(2, A, B))
    with closing(WatchExports(BOOTSTRAP, metrics)) as exports:
        options = Options(
            bootstrap=BOOTSTRAP,
            is_from_beginning=True,
            observe=exports.observe,
            metrics=metrics,
        )
        WatchSession(log, options, Told()).run(log.stop)
        exports.lag = lambda: {LAG: [["g", "t", "0", 15]]}
    roots = []
    for body in sink.posted["/v1/traces"]:
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
        for resource in sink.metrics()
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    expected = {"rollcall.rebalance-duration", "kafka.consumer_group.members"}
    assert expected | {"kafka.consumer_group.lag"} <= names
    assert "rollcall.partition.lease" not in names
