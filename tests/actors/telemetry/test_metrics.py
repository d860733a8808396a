"""What a coordinator counts of its background work."""

import re
from typing import Any

from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

from actors.console.exposition import exposition
from actors.telemetry.event_metrics import EventMetrics
from actors.telemetry.group_metrics import GroupMetrics
from actors.telemetry.metric_table import GROUP, HELD_TIME_MS, PERCENTILES, ROWS, MetricKind
from actors.telemetry.metrics import WINDOW_S, BackgroundMetrics, Samples
from actors.telemetry.observer import exports_metrics, exports_traces
from actors.telemetry.otlp_metrics import MetricsExport
from protocol.groups.facts import TargetAssigned, TargetAssignmentFailed


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def assigned(**fields: Any) -> TargetAssigned:
    known: dict[str, Any] = dict.fromkeys(TargetAssigned.__slots__, 0)
    given = {"group_id": "g", "group_type": "consumer", "assignor": "uniform", **fields}
    return TargetAssigned(**{**known, **given})


def test_percentiles_are_those_of_the_last_minute() -> None:
    clock = Clock()
    samples = Samples(clock)
    assert set(samples.percentiles().values()) == {0.0}
    samples.add(10_000.0)
    clock.now_s += WINDOW_S + 1
    for value in range(101):
        samples.add(float(value))
    assert samples.percentiles() == {"p50": 50, "p95": 95, "p99": 99, "p999": 100, "max": 100}
    clock.now_s += WINDOW_S + 1
    assert set(samples.percentiles().values()) == {0.0}


def test_threads_are_idle_for_the_time_that_nobody_worked_in() -> None:
    clock = Clock()
    metrics = BackgroundMetrics(2, clock)
    assert metrics.gauges()["background-thread-idle-ratio-avg"] == 1
    clock.now_s += 10
    metrics.ran(1.0, 5_000.0)
    assert metrics.gauges()["background-thread-idle-ratio-avg"] == 0.75
    assert metrics.gauges()["background-queue-time-ms-max"] == 1
    assert metrics.gauges()["background-processing-time-ms-p50"] == 5_000


def test_runs_are_counted_by_how_they_ended() -> None:
    metrics = BackgroundMetrics(0)
    metrics.observe(assigned(in_place=True))
    metrics.observe(assigned(in_place=False))
    for is_final in (True, False, False):
        fact = TargetAssignmentFailed(
            group_id="g",
            group_type="share",
            epoch=1,
            time_ms=0,
            reason="",
            is_final=is_final,
        )
        metrics.observe(fact)
    status = metrics.status()
    assert status["assignor-runs"] == 2
    assert status["assignor-runs-in-place"] == 1
    assert status["assignor-runs-retried"] == 2
    assert status["assignor-failures"] == {"consumer": 0, "share": 1, "streams": 0}


def status() -> dict[str, Any]:
    metrics = BackgroundMetrics(2, Clock())
    metrics.ran(1.5, 20.0)
    metrics.observe(assigned(in_place=False))
    counted = {
        **metrics.status(),
        **GroupMetrics(Clock()).status(),
        **EventMetrics(Clock()).status(),
    }
    known = {"node_id": 0, "state": "Running", "leads": [0, 2], "metrics": counted}
    return {
        "coordinators": [known, {"node_id": 1, "state": "Restarting", "leads": []}],
        "workers": [
            {"pid": 7, "state": "Idle", "runs": 1, "waiting": 3, "idle_ratio": 0.5},
            {"pid": None, "state": "Restarting", "runs": 0, "waiting": 0},
        ],
        "under_replicated": [1],
    }


def test_prometheus_finds_kafkas_names_with_underscores() -> None:
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition(status()))
        for sample in family.samples
    }
    own = ("coordinator", "0")
    assert found["group_coordinator_metrics_background_queue_time_ms_p50", own] == 1.5
    assert found["group_coordinator_metrics_background_processing_time_ms_p999", own] == 20
    assert found["group_coordinator_metrics_background_thread_idle_ratio_avg", own] < 1
    assert found["rollcall_assignor_runs_total", own] == 1
    assert found["rollcall_assignor_failures_total", own, ("group_type", "consumer")] == 0
    assert found["rollcall_coordinator_up", ("coordinator", "1")] == 0
    assert found["rollcall_assignor_waiting", ("worker", "0")] == 3
    assert found["rollcall_under_replicated_partitions",] == 1


def complete_status() -> dict[str, Any]:
    """Return a status with a value for everything that is measured."""
    known = status()
    for name in PERCENTILES:
        known["coordinators"][0]["metrics"][f"{HELD_TIME_MS}-{name}"] = 1.0
    return known


def test_every_metric_has_a_help_text_a_unit_and_names_of_its_own() -> None:
    for row in ROWS:
        assert row.help.endswith("."), row.key
        assert row.unit in {"ms", "1"} or row.unit.startswith("{"), row.key
        assert re.fullmatch("[a-z_]+", row.prometheus), row.key
        if row.unit == "ms":
            assert row.key.endswith("-ms"), f"{row.key} does not say its unit"
    for names in ([row.key for row in ROWS], [row.prometheus for row in ROWS]):
        assert len(names) == len(set(names))


def test_every_metric_is_read_and_every_value_that_is_counted_is_a_metric() -> None:
    counted = complete_status()["coordinators"][0]["metrics"]
    rows = {name for row in ROWS for name in row.names}
    assert counted.keys() <= rows
    shown = {
        family.name for family in text_string_to_metric_families(exposition(complete_status()))
    }
    expected = {
        row.prometheus + end.replace("-", "_") for row in ROWS for end in row.names.values()
    }
    assert shown == expected


def test_prometheus_is_told_what_a_metric_means_and_its_unit() -> None:
    text = exposition(complete_status())
    assert "# TYPE rollcall_assignor_runs_total counter" in text
    assert "# TYPE group_coordinator_metrics_background_queue_time_ms_p50 gauge" in text
    about = re.findall(r"^# HELP \S*background_queue_time_ms_p50 (.*)$", text, re.MULTILINE)
    assert about == ["Time that tasks waited for an assignor worker in the last minute. Unit: ms."]


def test_what_has_no_value_is_not_shown() -> None:
    text = exposition({"coordinators": [], "workers": [], "under_replicated": []})
    families = [family.name for family in text_string_to_metric_families(text)]
    assert families == ["rollcall_under_replicated_partitions"]


def test_the_same_is_exported_over_otlp() -> None:
    reader = InMemoryMetricReader()
    metrics = BackgroundMetrics(2, Clock())
    others = {**GroupMetrics(Clock()).status(), **EventMetrics(Clock()).status()}
    who = {"service.instance.id": "c"}
    export = MetricsExport(who, lambda: {**metrics.status(), **others}, reader)
    metrics.ran(1.5, 20.0)
    data = reader.get_metrics_data()
    assert data is not None
    found = {
        metric.name: [point.value for point in metric.data.data_points]  # type: ignore[union-attr]
        for scope in data.resource_metrics[0].scope_metrics
        for metric in scope.metrics
    }
    assert found["group-coordinator-metrics.background-queue-time-ms-max"] == [1.5]
    assert found["group-coordinator-metrics.background-processing-time-ms-p50"] == [20]
    assert found["rollcall.assignor.runs"] == [0]
    assert found["rollcall.assignor.failures"] == [0, 0, 0]
    assert found["group-coordinator-metrics.share-group-count"] == [0, 0, 0]
    assert data.resource_metrics[0].resource.attributes["service.name"] == "rollcall"
    described = {
        metric.name: (metric.unit, metric.description)
        for scope in data.resource_metrics[0].scope_metrics
        for metric in scope.metrics
    }
    assert described == {
        f"{row.otlp}{end}": (row.unit, row.help)
        for row in ROWS
        if row.otlp and not row.key.startswith(HELD_TIME_MS)
        for end in row.names.values()
    }, "the event loop is not watched here"
    counters = {row.otlp for row in ROWS if row.otlp and row.kind is MetricKind.COUNTER}
    assert counters == {
        name
        for name in described
        if name.startswith("rollcall.assignor.")
        or name.endswith(("-rebalance-count", ".write-total"))
        or (name.startswith(f"{GROUP}.offset-") and name.endswith("-count"))
    }
    export.close(1.0)


def test_metrics_are_exported_under_the_same_conditions_as_traces() -> None:
    assert not exports_metrics({})
    assert exports_metrics({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://there"})
    assert exports_metrics({"OTEL_METRICS_EXPORTER": "otlp"})
    here = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://there"}
    assert exports_metrics(here)
    assert not exports_traces(here)
    for no in ({"OTEL_SDK_DISABLED": "true"}, {"OTEL_METRICS_EXPORTER": "none"}):
        assert not exports_metrics({**here, **no})
