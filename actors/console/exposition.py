"""The cluster's status as Prometheus reads it: names as its exporters for Kafka write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from actors.telemetry.metrics import COUNTS, FAILURES, GAUGES, GROUP, escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client import Metric


def exposition(status: Mapping[str, Any]) -> str:
    """Write what ``rollcall status --json`` tells of the work done, in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Status(status))
    return generate_latest(registry).decode()


class _Status:
    """What Prometheus' library calls a collector."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Give every metric, with a value per coordinator, group type or worker."""
        rows = self._status["coordinators"]
        told = {str(row["node_id"]): row.get("metrics") or {} for row in rows}
        yield from _gauges(told)
        yield from _counted(told)
        up = GaugeMetricFamily("rollcall_coordinator_up", "1: it serves.", labels=["coordinator"])
        led = GaugeMetricFamily(
            "rollcall_partitions_led",
            "Partitions of __consumer_offsets led.",
            labels=["coordinator"],
        )
        for row in rows:
            up.add_metric([str(row["node_id"])], row["state"] in ("Running", "Draining"))
            led.add_metric([str(row["node_id"])], len(row["leads"]))
        yield up
        yield led
        yield GaugeMetricFamily(
            "rollcall_under_replicated_partitions",
            "Partitions, the catalogue included, with too few replicas in sync.",
            value=len(self._status["under_replicated"]),
        )
        yield from self._workers()

    def _workers(self) -> Iterator[Metric]:
        for name, about in (
            ("waiting", "Tasks that wait for an assignor worker."),
            ("idle_ratio", "The part of its time that an assignor worker was idle."),
        ):
            family = GaugeMetricFamily(f"rollcall_assignor_{name}", about, labels=["worker"])
            for number, row in enumerate(self._status["workers"]):
                if name in row:
                    family.add_metric([str(number)], row[name])
            yield family


def _gauges(told: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    names = {name: None for row in told.values() for name in row if name.startswith(GAUGES)}
    for name in names:
        family = GaugeMetricFamily(
            escaped(f"{GROUP}_{name}"),
            "See the table of metrics in the documentation.",
            labels=["coordinator"],
        )
        for node_id, row in told.items():
            if name in row:
                family.add_metric([node_id], row[name])
        yield family


def _counted(told: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    for name, about in COUNTS.items():
        family = CounterMetricFamily(
            escaped(f"rollcall_assignor_{name}"), about, labels=["coordinator"]
        )
        for node_id, row in told.items():
            if row:
                family.add_metric([node_id], row[f"assignor-{name}"])
        yield family
    failures = CounterMetricFamily(
        "rollcall_assignor_failures", FAILURES, labels=["coordinator", "group_type"]
    )
    for node_id, row in told.items():
        for kind, count in row.get("assignor-failures", {}).items():
            failures.add_metric([node_id, kind], count)
    yield failures
