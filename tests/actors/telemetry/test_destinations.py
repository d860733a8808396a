"""Where traces go, as it is said to people, and whether the last export has failed."""

import json
import logging
import os
import threading
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult

from actors.logs.leader_changes import ChangeReason, LeaderChange, leader_messages
from actors.telemetry import observer
from actors.telemetry.drops import TelemetryDrops
from actors.telemetry.observer import Telemetry, traces_go
from actors.telemetry.trace_budget import BURST_MAX, TraceBudget
from actors.telemetry.traces import Traces
from actors.telemetry.transports import FILE
from tests.actors.telemetry.facts import NOW, rebalance
from tests.actors.telemetry.test_telemetry import OTLP, Failing
from tests.waiting import WITHIN_S, until


@pytest.fixture(autouse=True)
def no_otel_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("OTEL_", "ROLLCALL_TRACES"))]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "nowhere"),
        ({**OTLP, "OTEL_SDK_DISABLED": "true"}, "nowhere"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "to http://localhost:4318 by http/protobuf"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "to http://localhost:4317 by grpc",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "to c:4317 by grpc",
        ),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "https://me:secret@b.example/secret?key=secret#x",
                "OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret",
            },
            "to https://b.example by http/protobuf",
        ),
        (
            {**OTLP, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://[::1]:5/v1/traces"},
            "to http://[::1]:5 by http/protobuf",
        ),
        ({FILE: "/logs/traces.jsonl"}, "to files: /logs/traces-<pid>.jsonl"),
    ],
)
def test_where_traces_go_is_said_without_secrets(environ: dict[str, str], expected: str) -> None:
    assert traces_go(environ) == expected


@pytest.mark.parametrize(
    ("environ", "has_own"),
    [
        ({}, True),
        ({"OTEL_SDK_DISABLED": "false", "OTEL_SERVICE_NAME": "shop"}, True),
        ({"OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ({FILE: "/logs/traces.jsonl"}, False),
        (OTLP, False),
    ],
)
def test_a_process_has_a_file_of_its_own_where_nothing_says_otherwise(
    environ: dict[str, str], has_own: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    own = tmp_path / "traces" / "coordinator-0.jsonl"
    said = f"to files: {own.with_stem('<process>')}"
    assert (traces_go(os.environ, own) == said) is has_own


def test_a_processs_own_file_takes_traces_within_a_budget(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(observer, "TraceBudget", lambda: TraceBudget(lambda: 0.0))
    caplog.set_level(logging.INFO, "rollcall.telemetry")
    own = tmp_path / "traces" / "coordinator-0.jsonl"
    telemetry = Telemetry({}, own_file=own)
    assert telemetry.run_context("orders", 1) == "", "workers export nothing"
    for _ in range(BURST_MAX + 20):
        telemetry.observe(rebalance())
    telemetry.close(WITHIN_S)
    assert own.read_text().count('"name":"rebalance: member left"') == BURST_MAX
    assert telemetry.drops.unwritten == 20
    assert "20 rebalances have no trace" in caplog.text


def test_whether_the_last_export_failed_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    answers = [SpanExportResult.FAILURE, SpanExportResult.SUCCESS]
    drops, told = TelemetryDrops(), threading.Event()

    def export() -> SpanExportResult:
        answer = answers.pop(0) if answers else SpanExportResult.SUCCESS
        if answer is SpanExportResult.SUCCESS:
            told.wait(WITHIN_S)
        return answer

    traces = Traces({}, drops, Failing(export))
    traces.tell(rebalance(), None)
    until(lambda: drops.is_failing, WITHIN_S, "the failure is known")
    traces.tell(rebalance(), None)
    told.set()
    until(lambda: not drops.is_failing, WITHIN_S, "the success is known")
    traces.close(10)


def test_a_process_says_in_its_log_where_its_traces_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv(FILE, str(tmp_path / "traces.jsonl"))
    telemetry = Telemetry({})
    telemetry.close()
    where = f"to files: {tmp_path / 'traces-<pid>.jsonl'}"
    assert caplog.messages == [f"traces go {where}"]
    assert telemetry.traces() == {"go": where, "is_failing": False}


def test_a_failover_that_the_coordinator_logs_is_a_trace(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv(FILE, str(tmp_path / "traces.jsonl"))
    telemetry = Telemetry({"service.instance.id": "coordinator-2"}, partition_of=lambda _: 7)
    alone = LeaderChange(
        partition=7, epoch=5, at_ms=NOW, begins=True, reason=ChangeReason.SILENT, node=1
    )
    log = logging.getLogger("rollcall.coordinator")
    for line, fields in leader_messages([alone]):
        log.info("%s", line, extra=dict(fields))
    telemetry.observe(rebalance(elected_ms=NOW))
    telemetry.close()
    for line, fields in leader_messages([alone]):
        log.info("%s", line, extra=dict(fields))  # nobody waits for it any more
    (file,) = tmp_path.glob("traces-*.jsonl")
    spans = [
        span
        for line in file.read_text().splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    (failover,) = (span for span in spans if span["name"] == "failover")
    (root,) = (span for span in spans if span["name"] == "rebalance: member left")
    assert failover["links"][0]["spanId"] == root["spanId"]
    assert root["links"][0]["spanId"] == failover["spanId"]
