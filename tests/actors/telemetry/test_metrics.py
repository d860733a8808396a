"""What a coordinator counts of its background work."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Sum
from prometheus_client.parser import text_string_to_metric_families

from actors.console.exposition import exposition
from actors.metrics.names import (
    COMMIT_LATENCY,
    GROUP_MEMBERS,
    GROUP_REBALANCES,
    GROUP_REBALANCING,
    GROUP_STATE,
    HELD_TIME_MS,
    LAG,
    LAG_LEFT_OUT,
    OFFSET,
    OFFSETS_LEFT_OUT,
    PERCENTILES,
    REBALANCE_DURATION,
    SYNC_TIME,
)
from actors.metrics.row import MetricKind, MetricScope, MetricSource, parts_of
from actors.metrics.table import ROWS
from actors.telemetry.event_metrics import EventMetrics
from actors.telemetry.group_metrics import GroupMetrics
from actors.telemetry.histograms import SLOW_S, Histogram
from actors.telemetry.leader_metrics import LeaderMetrics
from actors.telemetry.metrics import WINDOW_S, BackgroundMetrics, Samples
from actors.telemetry.observer import exports_metrics, exports_traces
from actors.telemetry.otlp_metrics import MetricsExport
from failover.identity import CATALOG_PARTITION
from failover.partition_kinds import KINDS, title_of
from protocol.groups.facts import TargetAssigned, TargetAssignmentFailed
from tests.promtool import check_metrics, needs_promtool


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def assigned(**fields: Any) -> TargetAssigned:
    known: dict[str, Any] = dict.fromkeys(TargetAssigned.__slots__, 0)
    given = {"group_id": "g", "group_type": "consumer", "assignor": "uniform", "members": 1}
    return TargetAssigned(**{**known, **given, **fields})


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
    metrics.observe(assigned(members=0))  # the last one is gone: no assignor ran
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
        **LeaderMetrics().status(),
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
    queued, ran = (
        f"group_coordinator_metrics_background_{name}_time_seconds"
        for name in ("queue", "processing")
    )
    assert found[queued, own, ("percentile", "p50")] == pytest.approx(0.0015)
    assert found[ran, own, ("percentile", "p999")] == pytest.approx(0.02)
    assert found[ran, own, ("percentile", "max")] == pytest.approx(0.02)
    assert found["group_coordinator_metrics_background_thread_idle_ratio_avg", own] < 1
    assert found["rollcall_assignor_runs_total", own] == 1
    assert found["rollcall_assignor_failures_total", own, ("group_type", "consumer")] == 0
    assert found["rollcall_coordinator_up", ("coordinator", "1")] == 0
    assert found["rollcall_assignor_waiting", ("worker", "0")] == 3
    assert found["rollcall_under_replicated_partitions",] == 1


def complete_status() -> dict[str, Any]:
    """Return a status with a value for everything that is measured."""
    known = status()
    metrics = known["coordinators"][0]["metrics"]
    for name in PERCENTILES:
        metrics[f"{HELD_TIME_MS}-{name}"] = 1.0
    group_id = 'say "hi"\n'
    metrics |= {
        GROUP_MEMBERS: [[group_id, 3]],
        GROUP_STATE: [[group_id, "consumer", "Stable", 1]],
        GROUP_REBALANCING: [[group_id, 0]],
        GROUP_REBALANCES: [[group_id, 4]],
    }
    durations, seconds = Histogram(SLOW_S), Histogram()
    durations.add(2.0, "consumer", "left")
    seconds.add(0.003)
    metrics[REBALANCE_DURATION] = durations.status()
    metrics |= dict.fromkeys((COMMIT_LATENCY, SYNC_TIME), seconds.status())
    rest = {"waiting_ms": 0}
    known["catalog"] = {"partition": CATALOG_PARTITION, "lease_ms": 120, "epoch": 3, **rest}
    known["partitions"] = [
        {"partition": 0, "lease_ms": 130, "epoch": 4, **rest},
        {"partition": 1, "epoch": None},
    ]
    known["lag"] = {
        LAG: [["orders", "t", "0", 15]],
        OFFSET: [["orders", "t", "0", 5]],
        LAG_LEFT_OUT: [[0]],
        OFFSETS_LEFT_OUT: [[0]],
    }
    known["share_state"] = []
    return known


def test_every_metric_has_a_help_text_a_unit_and_names_of_its_own() -> None:
    for row in ROWS:
        assert row.help.endswith("."), row.key
        assert row.unit in {"ms", "s", "1"} or row.unit.startswith("{"), row.key
        assert re.fullmatch("[a-z_]+", row.prometheus), row.key
        if row.unit == "ms":
            assert row.key.endswith(("-ms", "_ms")), f"{row.key} does not say its unit"
        if row.unit in {"ms", "s"}:
            assert "_seconds" in row.prometheus, f"{row.prometheus} does not say its unit"
    for names in ([row.key for row in ROWS], [row.prometheus for row in ROWS]):
        assert len(names) == len(set(names))


def test_every_metric_is_read_and_every_value_that_is_counted_is_a_metric() -> None:
    counted = complete_status()["coordinators"][0]["metrics"]
    rows = {name for row in ROWS for name in row.names}
    assert counted.keys() <= rows
    shown = {
        family.name for family in text_string_to_metric_families(exposition(complete_status()))
    }
    expected = {name for row in ROWS for name in row.families}
    assert shown == expected


def test_prometheus_is_told_what_a_metric_means() -> None:
    text = exposition(complete_status())
    assert "# TYPE rollcall_assignor_runs_total counter" in text
    assert "# TYPE rollcall_rebalance_duration_seconds histogram" in text
    assert "# TYPE group_coordinator_metrics_background_queue_time_seconds gauge" in text
    about = re.findall(r"^# HELP \S*background_queue_time_seconds (.*)$", text, re.MULTILINE)
    assert about == ["Time that tasks waited for an assignor worker in the last minute."]


@needs_promtool
def test_promtool_finds_no_fault() -> None:
    check_metrics(exposition(complete_status()))


def test_single_groups_and_durations_are_shown_with_their_labels() -> None:
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition(complete_status()))
        for sample in family.samples
    }
    own, orders = ("coordinator", "0"), ("consumergroup", 'say "hi"\n')
    assert found["kafka_consumergroup_members", orders, own] == 3
    state = (("state", "Stable"), ("type", "consumer"))
    assert found["kafka_consumergroup_group_state", orders, own, *state] == 1
    labels = (own, ("group_type", "consumer"))
    trigger = ("trigger", "left")
    duration = "rollcall_rebalance_duration_seconds"
    assert found[f"{duration}_count", *labels, trigger] == 1
    assert found[f"{duration}_bucket", *labels, ("le", "2.5"), trigger] == 1
    assert found[f"{duration}_bucket", *labels, ("le", "1.0"), trigger] == 0
    epochs = {key[-1][1]: value for key, value in found.items() if key[0].endswith("der_epoch")}
    assert epochs == {title_of(CATALOG_PARTITION): 3, "partition 0": 4}
    leases = {key[-1][1]: value for key, value in found.items() if key[0].endswith("lease_seconds")}
    assert leases == {title_of(CATALOG_PARTITION): 0.12, "partition 0": 0.13}


def test_what_has_no_value_is_not_shown() -> None:
    text = exposition({"coordinators": [], "workers": [], "under_replicated": []})
    families = [family.name for family in text_string_to_metric_families(text)]
    assert families == ["rollcall_under_replicated_partitions"]


def exported(
    source: MetricSource,
    read: Callable[[MetricScope], Any],
    histograms: Mapping[str, Histogram] = MappingProxyType({}),
) -> dict[str, Any]:
    """Export what one process exports; return the metrics by name."""
    reader = InMemoryMetricReader()
    export = MetricsExport({"service.instance.id": "c"}, read, histograms, reader, [source])
    for row in ROWS:
        if row.key in histograms:
            histograms[row.key].add(0.004, *("x" for _ in row.labels))
    data = reader.get_metrics_data()
    assert data is not None
    assert data.resource_metrics[0].resource.attributes["service.name"] == "rollcall"
    export.close(1.0)
    return {
        metric.name: metric
        for scope in data.resource_metrics[0].scope_metrics
        for metric in scope.metrics
    }


def expected_of(source: MetricSource) -> dict[str, tuple[str, str]]:
    return {
        f"{row.otlp}{end}": (row.unit, row.help)
        for row in ROWS
        if row.source is source
        for end in row.names.values()
    }


def points(metric: Any) -> dict[tuple[str, ...], Any]:
    """Return the values of a metric by the values of their attributes."""
    return {
        tuple(map(str, point.attributes.values())): point.value for point in metric.data.data_points
    }


def test_a_coordinator_exports_what_it_counts() -> None:
    histograms = {row.key: Histogram() for row in ROWS if row.kind is MetricKind.HISTOGRAM}
    counted = complete_status()["coordinators"][0]["metrics"]
    found = exported(MetricSource.COORDINATOR, lambda _: [((), {"metrics": counted})], histograms)
    duration = found["rollcall.rebalance-duration"].data.data_points[0]
    assert (duration.count, duration.sum) == (1, 0.004)
    assert duration.explicit_bounds == histograms[REBALANCE_DURATION].bounds_s
    assert duration.attributes == {"group_type": "x", "trigger": "x"}
    member = found["kafka.consumer_group.members"].data.data_points[0]
    assert member.attributes == {"messaging.consumer.group.name": 'say "hi"\n'}
    assert member.value == 3
    queued = "group-coordinator-metrics.background-queue-time-ms-max"
    assert points(found[queued]) == {(): 1.5}
    assert points(found["rollcall.assignor.failures"])["consumer",] == 0
    assert points(found["rollcall.leader.elections"]) == {(kind.name,): 0 for kind in KINDS}
    described = {name: (metric.unit, metric.description) for name, metric in found.items()}
    assert described == expected_of(MetricSource.COORDINATOR)
    counters = {name for name, metric in found.items() if isinstance(metric.data, Sum)}
    assert counters == {row.otlp for row in ROWS if row.kind is MetricKind.COUNTER}


def test_the_controller_exports_leaders_leases_and_workers() -> None:
    status = complete_status()
    found = exported(MetricSource.CONTROLLER, lambda scope: parts_of(status, scope))
    assert {
        name: (metric.unit, metric.description) for name, metric in found.items()
    } == expected_of(MetricSource.CONTROLLER)
    assert points(found["rollcall.partition.lease"]) == {
        (title_of(CATALOG_PARTITION),): 120,
        ("partition 0",): 130,
    }
    assert points(found["rollcall.partition.leader-epoch"])["partition 0",] == 4
    assert points(found["rollcall.partitions.led"]) == {("0",): 2, ("1",): 0}
    assert points(found["rollcall.coordinator.up"]) == {("0",): 1, ("1",): 0}
    assert points(found["rollcall.assignor.waiting"]) == {("0",): 3, ("1",): 0}
    waiting = found["rollcall.assignor.waiting"].data.data_points[0]
    assert waiting.attributes == {"worker": "0"}


def test_a_watch_exports_lag() -> None:
    found = exported(MetricSource.WATCH, lambda scope: parts_of(complete_status(), scope))
    assert {
        name: (metric.unit, metric.description) for name, metric in found.items()
    } == expected_of(MetricSource.WATCH)
    lag = found["kafka.consumer_group.lag"].data.data_points[0]
    assert lag.value == 15
    assert lag.attributes == {
        "messaging.consumer.group.name": "orders",
        "messaging.destination.name": "t",
        "messaging.destination.partition.id": "0",
    }


def test_metrics_are_exported_under_the_same_conditions_as_traces() -> None:
    assert not exports_metrics({})
    assert exports_metrics({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://there"})
    assert exports_metrics({"OTEL_METRICS_EXPORTER": "otlp"})
    here = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://there"}
    assert exports_metrics(here)
    assert not exports_traces(here)
    for no in ({"OTEL_SDK_DISABLED": "true"}, {"OTEL_METRICS_EXPORTER": "none"}):
        assert not exports_metrics({**here, **no})
