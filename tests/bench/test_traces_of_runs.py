"""A rehearsal and a load run are each a trace, beside those of the rebalances that they cause.

The same is held for a drill by ``test_drills.py``, which runs one on a cluster.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.cli.client import shown
from actors.telemetry.transports import FILE
from bench.rehearse import main as rehearse
from tests.bench.one_node import OneNode
from tests.bench.traces import (
    Span,
    attributes,
    children,
    is_rebalance_root,
    spans_in,
    the_run,
)
from tests.waiting import patient, until

SCENARIO = """
about = "one more member, then one fewer"
duration = "8s"
topics.t.partitions = 4
configs = { "group.initial.rebalance.delay.ms" = "0" }
[[groups]]
name = "shop"
topics = ["t"]
start_time = "1s"
heartbeat_interval_ms = 500
behaviours = [
    { do = "scale", at = "3s", replicas = 4 },
    { do = "poll-timeout", at = "5s", away = "1s" },
]
[[variants]]
name = "eager"
groups.shop.heartbeat_interval_ms = 600
"""


SPARK = {
    "PYSPARK_SUBMIT_ARGS": "--master local[1] pyspark-shell",
    "PYSPARK_PYTHON": sys.executable,
}


@pytest.fixture
def traced_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OneNode]:
    """A coordinator and a run that write their traces to files of one directory."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(FILE, str(tmp_path / "traces" / "traces.jsonl"))
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    node = OneNode(tmp_path / "node").start()
    try:
        yield node
    finally:
        node.kill()


def rebalances_within(directory: Path, run: Span) -> list[Span]:
    """The rebalances that a coordinator told, and that began in the time of a run."""
    first, last = int(run["startTimeUnixNano"]), int(run["endTimeUnixNano"])
    return [
        each
        for each in spans_in(directory)
        if is_rebalance_root(each) and first <= int(each["startTimeUnixNano"]) <= last
    ]


@pytest.mark.timeout(300)
def test_a_rehearsal_is_a_trace_with_a_span_for_each_behaviour(
    traced_node: OneNode, tmp_path: Path
) -> None:
    path, traces = tmp_path / "small.toml", tmp_path / "traces"
    path.write_text(SCENARIO)
    where = ["--bootstrap", shown(traced_node.address)]
    rehearse([str(path), *where, "--variant", "eager"])
    spans = spans_in(traces)
    root = the_run(spans, "rehearsal small")
    said = attributes(root)
    assert said["rollcall.run.kind"] == "rehearsal"
    assert said["rollcall.run.variant"] == "eager"
    below = children(spans, root)
    assert [each["name"] for each in below] == ["scale", "poll-timeout"]
    assert attributes(below[0])["rollcall.run.text"] == "shop: scale"
    until(lambda: rebalances_within(traces, root), patient(20), "its rebalances are beside it")
    for each in rebalances_within(traces, root):
        assert each["traceId"] != root["traceId"]


@pytest.mark.timeout(300)
def test_a_load_run_is_a_trace_with_a_span_for_each_part(
    traced_node: OneNode, tmp_path: Path
) -> None:
    traces = tmp_path / "traces"
    words = ["--bootstrap", shown(traced_node.address), "--members", "20", "--seconds", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.load.submit", *words, "--tasks", "1"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **SPARK},
        capture_output=True,
        text=True,
        check=False,
        timeout=patient(120),
    )
    assert "verdict: " in done.stdout, done.stderr  # not clean, on a slow machine
    spans = spans_in(traces)
    root = the_run(spans, "load spark")
    assert attributes(root)["rollcall.run.kind"] == "load"
    assert [each["name"] for each in children(spans, root)] == ["join", "stay", "end"]
    until(lambda: rebalances_within(traces, root), patient(20), "its rebalances are beside it")
