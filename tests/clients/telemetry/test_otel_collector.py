"""Traces go through a real Collector of OpenTelemetry, and outlast its death."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.telemetry.observer import Telemetry
from actors.telemetry.transports import DEFAULT, TRANSPORTS
from tests.actors.telemetry.facts import rebalance
from tests.otel_collector import Collector, installed
from tests.otlp_backend import Jaeger, root
from tests.otlp_backend import installed as jaeger_installed
from tests.waiting import WITHIN_S, patient, until

if TYPE_CHECKING:
    from collections.abc import Iterator

BUILD_S = 1200
FOUND_S = patient(20)
CLOSE_S = patient(10)


@pytest.fixture(scope="module")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    with Jaeger(tmp_path_factory.mktemp("jaeger")) as backend:
        yield backend


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory, jaeger: Jaeger) -> Iterator[Collector]:
    with Collector(tmp_path_factory.mktemp("otelcol"), jaeger.otlp_endpoint()) as started:
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
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.timeout(BUILD_S)
def test_the_collector_can_be_built_from_the_registry() -> None:
    assert jaeger_installed().exists()
    assert installed().exists()


@pytest.mark.parametrize("protocol", TRANSPORTS)
def test_traces_go_through_the_collector(
    protocol: str, jaeger: Jaeger, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = f"through-the-collector-by-{protocol.partition('/')[0]}"
    set_variables(monkeypatch, collector, service, protocol)
    telemetry = Telemetry({"service.instance.id": 0})
    telemetry.observe(rebalance())
    telemetry.close(CLOSE_S)
    assert telemetry.drops.spans == 0
    (trace,) = until(lambda: jaeger.traces(service), FOUND_S, "the trace is in the backend")
    assert root(trace)["tags"]["rollcall.rebalance.cause"] == "left"


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
