"""A rebalance is found in a real OTLP backend, with who caused it and why (issue 3, part 8)."""

from collections.abc import Iterator

import pytest

from actors.telemetry import Telemetry
from tests.actors.facts import member_event, rebalance
from tests.otlp_backend import Jaeger, installed, root
from tests.waiting import until

BUILD_S = 1200


@pytest.fixture(scope="module")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    with Jaeger(tmp_path_factory.mktemp("jaeger")) as backend:
        yield backend


@pytest.mark.timeout(BUILD_S)
def test_the_backend_can_be_built_from_the_registry() -> None:
    assert installed().exists()


def test_a_rebalance_told_by_facts_is_a_trace_in_the_backend(
    jaeger: Jaeger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", jaeger.otlp_endpoint)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from-facts")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    telemetry = Telemetry({"service.instance.id": 0})
    telemetry.observe(member_event())
    telemetry.observe(rebalance())
    telemetry.close()
    assert telemetry.losses.spans == 0
    tags = {"rollcall.member.instance_id": "a"}
    trace = until(lambda: jaeger.traces("from-facts", **tags), 10, "the trace is there")[0]
    assert {span["operationName"] for span in trace} == {"rebalance orders", "join", "sync"}
    found = root(trace)
    assert found["tags"]["rollcall.rebalance.reason"] == "closing"
    assert found["tags"]["rollcall.generation.after"] == 5
    assert found["tags"]["rollcall.partitions.moved"] == 2
    assert len(found["logs"]) == 1
