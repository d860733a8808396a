"""A real cluster: processes write JSON lines, and the controller exports leaders and workers."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import NewCluster, RunningCluster, rollcall
from tests.otlp_sink import Sink, running
from tests.waiting import WITHIN_S, until

UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    with running() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{server.endpoint}/v1/metrics")
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1000")
        yield server


def rows(cluster: RunningCluster, name: str) -> list[dict[str, Any]]:
    """Return the log of a process; each line is an object."""
    found = [json.loads(line) for line in cluster.log_lines(name).splitlines()]
    assert all(UTC.fullmatch(row["time"]) and row["node"] == name for row in found)
    return found


def exported(sink: Sink) -> dict[str, dict[str, Any]]:
    """Return the newest metrics by name, of each process that exports some."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for resource in sink.metrics():
        named = {each.key: each.value.string_value for each in resource.resource.attributes}
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                found[named["service.instance.id"]][metric.name] = metric
    return found


def points(metrics: dict[str, Any], name: str) -> dict[tuple[str, ...], int]:
    found = metrics[name].gauge.data_points
    return {
        tuple(each.value.string_value for each in point.attributes): point.as_int for point in found
    }


def test_a_drain_can_be_read_in_json_and_seen_over_otlp(
    new_cluster: NewCluster, sink: Sink
) -> None:
    cluster = new_cluster(settings={"logging.format": "json"}).start()
    drained = rollcall("drain", "1", "--data-dir", cluster.data_dir)
    assert drained.returncode == 0, drained.stderr

    def is_empty() -> bool:
        metrics = exported(sink)["controller"]
        return "rollcall.partitions.led" in metrics and (
            points(metrics, "rollcall.partitions.led")["1",] == 0
        )

    until(is_empty, WITHIN_S, "the controller exports that node 1 leads nothing")
    metrics = exported(sink)
    assert points(metrics["controller"], "rollcall.coordinator.up") == {
        (str(node),): 1 for node in range(3)
    }
    assert points(metrics["controller"], "rollcall.partition.leader-epoch")["partition 1",] > 0
    assert "rollcall.assignor.waiting" in metrics["controller"]
    assert "rollcall.leader.elections" in metrics["coordinator-0"]
    assert "rollcall.partitions.led" not in metrics["coordinator-0"]
    said = [row["message"] for row in rows(cluster, "controller")]
    assert any(line.startswith("coordinator 1 is being drained: it leads ") for line in said)
    assert any(" leaderships went to others, " in line for line in said)

    def told(name: str, *parts: str) -> bool:
        messages = [row["message"] for row in rows(cluster, name)]
        return any(all(part in message for part in parts) for message in messages)

    assert told("coordinator-1", "this coordinator hands over all that it leads")
    until(
        lambda: told("coordinator-1", "this node no longer leads ", "partition 1 (epoch "),
        WITHIN_S,
        "the end of a leadership is logged",
    )
    until(
        lambda: any(
            told(f"coordinator-{node}", "node 1, the leader before, handed over") for node in (0, 2)
        ),
        WITHIN_S,
        "a beginning is logged",
    )
    assert cluster.stop() == 0
    for path in (cluster.data_dir / "logs").glob("*.log"):
        rows(cluster, path.stem)
