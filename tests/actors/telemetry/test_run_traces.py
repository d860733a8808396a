"""Drills and other runs as traces, and traces in a file."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actors.telemetry import trace_file
from actors.telemetry.observer import Telemetry, exports_traces
from actors.telemetry.run_traces import STEPS_MAX, TOLD_MAX, RunStep, TracedRun, trace_run
from actors.telemetry.trace_file import TraceFile
from actors.telemetry.transports import FILE, file_of
from tests.actors.telemetry.facts import NOW, rebalance

RUN = TracedRun(
    kind="drill",
    name="kill-leader",
    started_ms=NOW,
    ended_ms=NOW + 9_000,
    is_clean=True,
    told=[(NOW + 10, "every group is Stable")],
    steps=[RunStep("kill", NOW + 3_000, NOW + 3_100, "kill the leader"), RunStep("wait", NOW, NOW)],
)


@pytest.fixture(autouse=True)
def no_otel_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("OTEL_", "ROLLCALL_TRACES"))]:
        monkeypatch.delenv(name)


def test_a_drill_is_a_trace_with_a_span_for_each_step() -> None:
    exporter = InMemorySpanExporter()
    trace_run(RUN, exporter)
    kill, wait, root = exporter.get_finished_spans()
    assert root.name == "drill kill-leader"
    assert dict(root.attributes or {}) == {
        "rollcall.run.kind": "drill",
        "rollcall.run.name": "kill-leader",
        "rollcall.run.verdict": "clean",
    }
    assert (root.start_time, root.end_time) == (NOW * 10**6, (NOW + 9_000) * 10**6)
    (said,) = root.events
    assert (said.attributes or {})["rollcall.run.text"] == "every group is Stable"
    assert (kill.name, wait.name) == ("kill", "wait")
    assert kill.parent == wait.parent == root.context


def test_what_was_said_is_bounded() -> None:
    exporter = InMemorySpanExporter()
    told = [(NOW, "again")] * (TOLD_MAX + 5)
    trace_run(TracedRun(kind="bench", name="b", started_ms=NOW, ended_ms=NOW, told=told), exporter)
    (root,) = exporter.get_finished_spans()
    assert len(root.events) == TOLD_MAX
    assert (root.attributes or {})["rollcall.run.verdict"] == "none"


def test_steps_are_bounded_and_the_variant_is_an_attribute() -> None:
    exporter = InMemorySpanExporter()
    steps = [RunStep("kill", NOW, NOW)] * (STEPS_MAX + 5)
    run = TracedRun(
        kind="rehearsal", name="r", started_ms=NOW, ended_ms=NOW, variant="static", steps=steps
    )
    trace_run(run, exporter)
    *below, root = exporter.get_finished_spans()
    assert len(below) == STEPS_MAX
    assert root.name == "rehearsal r"
    assert (root.attributes or {})["rollcall.run.variant"] == "static"


def test_nothing_is_sent_or_loaded_unless_configured() -> None:
    trace_run(RUN)  # it would wait for a backend that does not exist


def test_traces_are_written_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE, str(tmp_path / "logs" / "traces.jsonl"))
    assert exports_traces(os.environ)
    trace_run(RUN)
    telemetry = Telemetry({})
    telemetry.observe(rebalance())
    telemetry.close()
    lines = (tmp_path / "logs" / f"traces-{os.getpid()}.jsonl").read_text().splitlines()
    kinds = {
        span["name"]: span
        for line in lines
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    }
    assert {"drill kill-leader", "kill", "rebalance: member left", "join", "sync"} <= kinds.keys()
    assert re.fullmatch("[0-9a-f]{32}", kinds["kill"]["traceId"])
    assert kinds["kill"]["parentSpanId"] == kinds["drill kill-leader"]["spanId"]
    assert kinds["kill"]["kind"] == 1  # a number, as OTLP has it in JSON


def test_a_run_is_not_harmed_if_it_cannot_be_traced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(FILE, str(tmp_path / "file" / "traces.jsonl"))
    trace_run(RUN)
    assert "the run cannot be traced" in caplog.text


def test_the_files_of_a_process_are_bounded_and_hold_the_newest_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans of several times what may be kept; each file is at its bound, each line is whole."""
    file_max = 20_000
    monkeypatch.setattr(trace_file, "FILE_BYTES_MAX", file_max)
    kept = InMemorySpanExporter()
    trace_run(RUN, kept)
    spans = kept.get_finished_spans()
    line_size = len(trace_file.as_line(spans).encode()) + 1
    assert line_size < file_max
    files_max = 1 + trace_file.FILES_KEPT
    exporter, other = TraceFile(tmp_path / "traces.jsonl"), tmp_path / "traces-1.jsonl"
    other.write_text("another process's\n")
    name, sizes = "traces.jsonl", []
    for _ in range(2 * files_max * file_max // line_size):
        assert exporter.export(spans) is SpanExportResult.SUCCESS
        sizes.append((tmp_path / name).stat().st_size)
    exporter.shutdown()
    own = sorted(path.name for path in tmp_path.iterdir() if path != other)
    assert own == [name, *(f"{name}.{number}" for number in range(1, files_max))]
    assert max(sizes) > file_max - line_size, "a file is filled before the next one begins"
    for path in tmp_path.iterdir():
        assert path.stat().st_size <= file_max
        if path != other:
            assert all(json.loads(line)["resourceSpans"] for line in path.read_text().splitlines())
    assert other.read_text() == "another process's\n"


def test_the_bounds_of_the_files_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "tracing.md").read_text()
    sizes = f"at most three files of {trace_file.FILE_BYTES_MAX >> 20} MiB"
    assert sizes in page
    assert 1 + trace_file.FILES_KEPT == 3


@pytest.mark.parametrize(
    "name",
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER"],
)
def test_a_backend_comes_before_the_file(name: str) -> None:
    assert file_of({FILE: "traces.jsonl"}) is not None
    assert file_of({FILE: "traces.jsonl", name: "otlp"}) is None
    assert not exports_traces({FILE: "traces.jsonl", "OTEL_SDK_DISABLED": "true"})


def test_a_file_that_cannot_be_written_is_told_as_a_failure(tmp_path: Path) -> None:
    exporter = TraceFile(tmp_path / "traces.jsonl")
    (tmp_path / "traces.jsonl").mkdir()
    assert exporter.export([]) is SpanExportResult.FAILURE
    exporter.shutdown()
