"""Traces and metrics of a watched Kafka arrive at an OTLP endpoint."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from actors.metrics.names import LAG
from actors.telemetry import traces
from actors.telemetry.group_metrics import GroupMetrics
from actors.telemetry.observer import Telemetry
from actors.watching import exports as exporting
from actors.watching.exports import WatchExports
from actors.watching.session import Options, WatchSession
from tests.actors.watching.test_session import BOOTSTRAP, START, A, B, Log, Told
from tests.otlp_sink import Sink, running
from tests.protocol.watching.records import generation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.sdk.trace import ReadableSpan


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


REBALANCES: Final = 150


def tell_many(monkeypatch: pytest.MonkeyPatch) -> WatchExports:
    """Tell so many rebalances from the beginning, with queues for some of them."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    defaults = Telemetry.__init__.__defaults__
    assert defaults is not None
    monkeypatch.setattr(Telemetry.__init__, "__defaults__", (10, *defaults[1:]))
    records = [generation(number, A, *([B] * (number % 2))) for number in range(1, REBALANCES)]
    log = Log(generation(0), *records)
    exports = WatchExports(BOOTSTRAP, GroupMetrics())
    options = Options(bootstrap=BOOTSTRAP, is_from_beginning=True, observe=exports.observe)
    session = WatchSession(log, options, Told())
    exports.is_catching_up = lambda: not session.is_loaded
    session.run(log.stop)
    return exports


def test_while_it_catches_up_it_reads_no_faster_than_traces_are_exported(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    exports = tell_many(monkeypatch)
    drops = exports._telemetry.drops
    exports.close()
    assert (drops.facts, drops.spans) == (0, 0)
    roots = [
        span
        for body in sink.posted["/v1/traces"]
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
        if not span.parent_span_id
    ]
    assert len(roots) == REBALANCES - 1


def test_it_waits_for_no_backend_that_fails_and_says_what_was_dropped(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.FAILURE

    monkeypatch.setattr(traces, "exporter_of", lambda *_: Failing())
    exports = tell_many(monkeypatch)
    exports.close()
    drops = exports._telemetry.drops
    assert drops.facts == 0
    assert drops.spans >= 3 * (REBALANCES - 1)
    assert "spans were not delivered" in caplog.text


def test_a_backend_that_hangs_is_waited_for_once(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    held = threading.Event()

    class Hanging(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            held.wait()
            return SpanExportResult.FAILURE

        def shutdown(self) -> None:
            held.set()

    monkeypatch.setattr(traces, "exporter_of", lambda *_: Hanging())
    monkeypatch.setattr(exporting, "ROOM_S", 0.2)
    monkeypatch.setattr(exporting, "CLOSE_S", 0.2)
    exports = tell_many(monkeypatch)
    exports.close()
    drops = exports._telemetry.drops
    assert drops.facts + drops.spans >= REBALANCES - 1
    assert "dropped" in caplog.text or "not delivered" in caplog.text
    held.set()
