"""Traces and metrics go through a real Collector of OpenTelemetry, and outlast its death."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.metrics.names import GROUP_COUNT
from actors.metrics.row import MetricKind
from actors.metrics.table import ROWS
from actors.telemetry.group_metrics import GroupMetrics
from actors.telemetry.histograms import Histogram
from actors.telemetry.observer import Telemetry, open_metrics
from actors.telemetry.root_names import CAME_BACK, PREFIX, ROOT_NAMES
from actors.telemetry.transports import DEFAULT, TRANSPORTS
from protocol.stories.causes import Cause
from tests.actors.telemetry.causes.test_causes import PAIRS, TYPES
from tests.actors.telemetry.facts import rebalance
from tests.otel_collector import Collector, installed
from tests.otlp_backend import Jaeger, parents, root
from tests.otlp_backend import installed as jaeger_installed
from tests.otlp_sink import Sink, running
from tests.waiting import WITHIN_S, patient, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

BUILD_S = 1200
FOUND_S = patient(20)
CLOSE_S = patient(10)


@pytest.fixture(scope="module")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    with Jaeger(tmp_path_factory.mktemp("jaeger")) as backend:
        yield backend


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def collector(
    tmp_path_factory: pytest.TempPathFactory, jaeger: Jaeger, sink: Sink
) -> Iterator[Collector]:
    directory = tmp_path_factory.mktemp("otelcol")
    with Collector(directory, jaeger.otlp_endpoint(), sink.endpoint) as started:
        yield started


def set_variables(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, service: str, protocol: str = DEFAULT
) -> None:
    for name, value in {
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.otlp_endpoint(protocol),
        "OTEL_EXPORTER_OTLP_TIMEOUT": f"{patient(1):g}",
        "OTEL_SERVICE_NAME": service,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_BSP_MAX_QUEUE_SIZE": "100000",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.timeout(BUILD_S)
def test_the_collector_can_be_built_from_the_registry() -> None:
    assert jaeger_installed().exists()
    assert installed().exists()


@pytest.mark.parametrize("protocol", TRANSPORTS)
def test_each_cause_of_each_type_of_group_goes_through_the_collector(
    protocol: str, jaeger: Jaeger, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Classic, consumer, share and streams groups, led to it by requests."""
    service = f"through-the-collector-by-{protocol.partition('/')[0]}"
    set_variables(monkeypatch, collector, service, protocol)
    telemetry = Telemetry({"service.instance.id": 0})
    for situations in TYPES.values():
        for situation in situations.values():
            for fact in situation().facts:
                telemetry.observe(fact)
    telemetry.close(CLOSE_S)
    assert (telemetry.drops.spans, telemetry.drops.facts) == (0, 0)
    wanted = {
        (group_type, str(cause), ROOT_NAMES[cause])
        for group_type, cause in PAIRS
        if cause is not Cause.STATIC_REPLACED or group_type == "classic"
    }
    wanted.add(("", str(Cause.STATIC_REPLACED), CAME_BACK))
    until(lambda: wanted <= told(jaeger, service), FOUND_S, "all traces are in the backend")
    assert {group_type for group_type, *_ in wanted} == {*TYPES, ""}


def told(jaeger: Jaeger, service: str) -> set[tuple[str, str, str]]:
    """Give the types, causes and names of the rebalances whose root spans the backend has.

    While spans arrive, a trace may have others already, and its root not yet.
    """
    roots = (span for trace in jaeger.traces(service) for span in trace if not parents(span))
    return {
        (
            found["tags"].get("rollcall.group.type", ""),
            found["tags"]["rollcall.rebalance.cause"],
            found["operationName"],
        )
        for found in roots
        if found["operationName"].startswith((PREFIX, CAME_BACK))
    }


@pytest.mark.parametrize("protocol", TRANSPORTS)
def test_metrics_of_all_types_of_group_go_through_the_collector(
    protocol: str, sink: Sink, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = f"metrics-by-{protocol.partition('/')[0]}"
    set_variables(monkeypatch, collector, service, protocol)
    metrics = GroupMetrics()
    histograms = {row.key: Histogram() for row in ROWS if row.kind is MetricKind.HISTOGRAM}
    export = open_metrics(
        {"service.instance.id": "c"},
        lambda _: [((), {"metrics": metrics.status()})],
        {**histograms, **metrics.histograms()},
    )
    assert export is not None
    groups = [situations[Cause.JOINED]() for situations in TYPES.values()]
    metrics.count([each.shard for each in groups])
    for group in groups:
        for fact in group.facts:
            metrics.observe(fact)
    export.close(CLOSE_S)
    counts = until(lambda: durations(sink, service), FOUND_S, "the metrics are in the backend")
    for group_type in TYPES:
        assert counts[group_type, Cause.JOINED] >= 1
    rows = [row for row in ROWS if row.key == GROUP_COUNT]
    names = {f"{row.otlp}{end}" for row in rows for end in row.names.values()}
    assert names
    assert names <= {metric.name for metric in of_service(sink, service)}


def of_service(sink: Sink, service: str) -> Iterator[Metric]:
    for resource in sink.metrics():
        who = {each.key: each.value.string_value for each in resource.resource.attributes}
        if who["service.name"] == service:
            yield from (metric for scope in resource.scope_metrics for metric in scope.metrics)


def durations(sink: Sink, service: str) -> dict[tuple[str, str], int]:
    """Give how many rebalances the histogram has, by the type of group and the trigger."""
    found = {}
    for metric in of_service(sink, service):
        if metric.name == "rollcall.rebalance-duration":
            for point in metric.histogram.data_points:
                labels = {each.key: each.value.string_value for each in point.attributes}
                found[labels["group_type"], labels["trigger"]] = point.count
    return found


def test_a_collector_that_dies_and_comes_back_costs_some_traces_and_nothing_else(
    jaeger: Jaeger, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = "outlasts-the-collector"
    set_variables(monkeypatch, collector, service)
    telemetry = Telemetry({"service.instance.id": 0})
    collector.kill()
    telemetry.observe(rebalance(group_id="lost"))
    until(lambda: telemetry.drops.spans > 0, WITHIN_S, "the spans are given up, and counted")
    collector.start()
    telemetry.observe(rebalance(group_id="kept"))
    (trace,) = until(lambda: jaeger.traces(service), FOUND_S, "the next trace arrives")
    assert root(trace)["tags"]["messaging.consumer.group.name"] == "kept"
    telemetry.close(CLOSE_S)
    assert telemetry.drops.facts == 0
