"""Facts become traces and sentences beside the event loop."""

import logging
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk import resources
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actors.stories.waiting_facts import BATCH_MAX
from actors.telemetry import observer as telemetry_module
from actors.telemetry.drops import TelemetryDrops
from actors.telemetry.observer import Telemetry, exports_traces
from actors.telemetry.rebalance_traces import EVENTS_PER_TRACE_MAX
from actors.telemetry.root_names import CAME_BACK
from actors.telemetry.traces import Traces, resource_of
from actors.telemetry.transports import FILE, TRANSPORTS
from protocol.groups.classic.partitions_moved import PartitionMovement
from protocol.groups.facts import (
    GroupDeleted,
    MemberEventKind,
    RebalanceEnded,
    RebalanceOutcome,
    RebalancePhase,
    RebalanceTrigger,
)
from protocol.stories.history import STORIES_PER_GROUP
from tests.actors.telemetry.facts import NOW, consumer_rebalance, member_event, rebalance
from tests.bench.traces import spans_in
from tests.waiting import WITHIN_S, patient, until

OTLP = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.fixture(autouse=True)
def no_otel_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry({})
    yield made
    made.close()


def traced(*facts: object) -> list[ReadableSpan]:
    """Give the spans that these facts become."""
    exporter, drops = InMemorySpanExporter(), TelemetryDrops()
    traces = Traces({"service.instance.id": 2}, drops, exporter)
    for fact in facts:
        moved = PartitionMovement(assigned=4, moved=2, added=0, dropped=0)
        traces.tell(fact, moved if isinstance(fact, RebalanceEnded) else None)  # type: ignore[arg-type]
    traces.close(10)
    assert (drops.spans, drops.facts) == (0, 0)
    return list(exporter.get_finished_spans())


def root_of(spans: list[ReadableSpan]) -> ReadableSpan:
    (root,) = (span for span in spans if span.parent is None)
    return root


# --- traces


def test_the_resource_is_hashed_once_for_all_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    made = resource_of({"service.instance.id": 2})
    equal = Resource(made.attributes, made.schema_url)
    assert (made, hash(made)) == (equal, hash(equal))
    assert {equal: 1}[made] == 1
    monkeypatch.setattr(resources, "dumps", None)
    assert hash(made)


def test_a_consumer_groups_rebalance_is_one_trace_with_a_span_per_stretch() -> None:
    spans = traced(member_event(), *consumer_rebalance())
    root = root_of(spans)
    assert root.name == "rebalance: member left"
    assert (root.start_time, root.end_time) == (NOW * 10**6, (NOW + 250) * 10**6)
    assert (root.attributes or {})["rollcall.rebalance.trigger"] == "member-left"
    assert [event.name for event in root.events] == ["left"]
    below = {span.name: dict(span.attributes or {}) for span in spans if span is not root}
    assert set(below) == {
        "trigger", "wait", "assign", "queue", "compute", "write", "append", "reconcile",
    }  # fmt: skip
    assert below["assign"]["rollcall.assignor.where"] == "worker"
    assert below["assign"]["rollcall.assignor.queue_ms"] == 1.5


def test_a_rebalance_is_one_trace_with_a_span_per_phase() -> None:
    spans = traced(rebalance())
    root = root_of(spans)
    assert root.name == "rebalance: member left"
    assert (root.start_time, root.end_time) == (NOW * 10**6, (NOW + 212) * 10**6)
    phases = {span.name: span for span in spans if span is not root}
    assert set(phases) == {"trigger", "join", "sync"}
    for span in phases.values():
        assert span.parent is not None
        assert root.context is not None
        assert span.parent.span_id == root.context.span_id
        assert span.parent.trace_id == root.context.trace_id
    assert phases["sync"].start_time == (NOW + 200) * 10**6


def test_the_root_span_says_who_why_and_what_came_of_it() -> None:
    root = root_of(traced(rebalance()))
    assert dict(root.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": "orders",
        "messaging.client.id": "consumer-1",
        "rollcall.group.type": "classic",
        "rollcall.rebalance.cause": "left",
        "rollcall.rebalance.trigger": "member-left",
        "rollcall.rebalance.outcome": "stable",
        "rollcall.rebalance.reason": "closing",
        "rollcall.member.id": "consumer-1-x",
        "rollcall.member.instance_id": "a",
        "rollcall.member.host": "/127.0.0.1",
        "rollcall.generation.before": 4,
        "rollcall.generation.after": 5,
        "rollcall.protocol.type": "consumer",
        "rollcall.protocol.name": "range",
        "rollcall.leader.id": "consumer-2-y",
        "rollcall.members": 2,
        "rollcall.partitions.assigned": 4,
        "rollcall.partitions.moved": 2,
        "rollcall.partitions.added": 0,
        "rollcall.partitions.dropped": 0,
    }
    assert root.resource.attributes["service.name"] == "rollcall"
    assert root.resource.attributes["service.instance.id"] == 2


def test_two_rebalances_are_two_traces() -> None:
    spans = traced(rebalance(), rebalance(group_id="other"))
    assert len({span.context.trace_id for span in spans if span.context}) == 2


def test_the_members_events_of_a_rebalance_are_events_of_its_span() -> None:
    root = root_of(
        traced(
            member_event(time_ms=NOW - 1, member_id="too-early"),
            member_event(time_ms=NOW),
            member_event(time_ms=NOW, group_id="other", member_id="elsewhere"),
            member_event(time_ms=NOW + 5, kind=MemberEventKind.REJOINED, member_id="m2"),
            rebalance(),
        )
    )
    told = [(event.name, (event.attributes or {})["rollcall.member.id"]) for event in root.events]
    assert told == [("left", "consumer-1-x"), ("rejoined", "m2")]
    assert root.events[0].timestamp == NOW * 10**6
    assert (root.events[0].attributes or {})["rollcall.member.reason"] == "closing"


def test_an_event_that_ends_one_rebalance_and_begins_the_next_is_in_both() -> None:
    first = rebalance(
        outcome=RebalanceOutcome.RESTARTED, phases=(RebalancePhase("join", NOW, NOW + 10),)
    )
    second = rebalance(phases=(RebalancePhase("join", NOW + 10, NOW + 20),))
    spans = traced(member_event(time_ms=NOW + 10), first, second, rebalance(phases=second.phases))
    roots = [span for span in spans if span.parent is None]
    assert [len(root.events) for root in roots] == [1, 1, 0]


def test_a_trace_holds_the_last_events_of_a_flood() -> None:
    flood = [member_event(member_id=f"m{i}") for i in range(EVENTS_PER_TRACE_MAX + 10)]
    root = root_of(traced(*flood, rebalance()))
    assert len(root.events) == EVENTS_PER_TRACE_MAX
    assert (root.events[-1].attributes or {})["rollcall.member.id"] == flood[-1].member_id


def test_a_deleted_groups_events_are_forgotten() -> None:
    root = root_of(
        traced(member_event(), GroupDeleted(group_id="orders", time_ms=NOW), rebalance())
    )
    assert not root.events


def test_static_members_that_come_back_at_once_have_as_many_traces_as_stories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of them does not push the traces of rebalances out."""
    monkeypatch.setenv(FILE, str(tmp_path / "traces.jsonl"))
    telemetry = Telemetry({})
    for number in range(400):
        telemetry.observe(
            member_event(
                kind=MemberEventKind.REPLACED, member_id=f"m-{number}", changes_nothing=True
            )
        )
    telemetry.observe(rebalance())
    telemetry.close()
    assert (telemetry.drops.spans, telemetry.drops.facts) == (0, 0)
    told = Counter(each["name"] for each in spans_in(tmp_path) if not each.get("parentSpanId"))
    batches = -(-401 // BATCH_MAX) + 1  # the first fact may come alone
    assert told["rebalance: member left"] == 1
    assert 0 < told[CAME_BACK] <= batches * (STORIES_PER_GROUP + 1)


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop-coordinators")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    attributes = root_of(traced(rebalance())).resource.attributes
    assert attributes["service.name"] == "shop-coordinators"
    assert attributes["deployment.environment.name"] == "test"
    assert attributes["service.instance.id"] == 2


class Failing(SpanExporter):
    def __init__(self, export: Callable[[], SpanExportResult]) -> None:
        self._export = export

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._export()


def test_spans_that_the_backend_refuses_are_counted() -> None:
    drops = TelemetryDrops()
    traces = Traces({}, drops, Failing(lambda: SpanExportResult.FAILURE))
    traces.tell(rebalance(), None)
    traces.close(10)
    assert drops.spans == 4


def test_spans_that_find_no_room_are_counted_while_the_backend_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    drops, answer, asked = TelemetryDrops(), threading.Event(), threading.Event()

    def hang() -> SpanExportResult:
        asked.set()
        answer.wait(WITHIN_S)
        return SpanExportResult.SUCCESS

    traces = Traces({}, drops, Failing(hang))
    traces.tell(rebalance(), None)
    until(asked.is_set, WITHIN_S, "an export has begun")
    for _ in range(10):
        traces.tell(rebalance(), None)
    assert drops.spans == 44 - 1 - 4
    answer.set()
    traces.close(10)
    assert drops.spans == 44 - 1 - 4


# --- sentences


def test_each_fact_is_one_sentence_in_the_log(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rollcall.groups")
    telemetry.observe(member_event())
    telemetry.observe(rebalance())
    until(lambda: len(caplog.messages) == 2, WITHIN_S, "two sentences")
    assert caplog.messages[0].endswith('left: "closing"')
    assert caplog.messages[1].endswith("2 members, 2 of 4 partitions moved")


def test_a_flood_of_like_events_ends_in_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rollcall.groups")
    telemetry = Telemetry({})
    for i in range(BATCH_MAX):
        telemetry.observe(member_event(member_id=f"m{i}"))
    telemetry.close()
    single = telemetry_module.SAID_SINGLY_MAX
    assert len(caplog.messages) < BATCH_MAX
    summed = [message for message in caplog.messages if "members left" in message]
    assert summed
    told = sum(int(message.split(": ")[1].split()[0]) for message in summed)
    assert told + len(caplog.messages) - len(summed) == BATCH_MAX
    assert len(caplog.messages) - len(summed) >= single


def test_what_does_not_fit_is_dropped_counted_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    telemetry = Telemetry({}, facts_waiting_max=0)
    for _ in range(7):
        telemetry.observe(member_event())
    telemetry.close()
    assert telemetry.drops.facts == 7
    assert [m for m in caplog.messages if "were dropped" in m] == [
        "7 facts were dropped: they arrived too fast"
    ]


def test_a_fact_that_cannot_be_told_harms_none_of_the_next(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    telemetry.observe(member_event(kind="unheard-of"))
    until(lambda: telemetry.drops.facts == 1, WITHIN_S, "the odd fact is counted")
    telemetry.observe(member_event())
    until(
        lambda: any("left" in message for message in caplog.messages), WITHIN_S, "the next is told"
    )


# --- when traces are exported


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        (OTLP, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({**OTLP, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**OTLP, "OTEL_TRACES_EXPORTER": "zipkin"}, False),
        ({**OTLP, "OTEL_SDK_DISABLED": "true"}, False),
        ({**OTLP, "OTEL_SDK_DISABLED": "false"}, True),
        ({**OTLP, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
        ({**OTLP, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, True),
        ({**OTLP, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, False),
        (
            {
                **OTLP,
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json",
            },
            False,
        ),
    ],
)
def test_traces_are_exported_only_when_the_standard_variables_ask(
    environ: dict[str, str], expected: bool
) -> None:
    assert exports_traces(environ) is expected


def test_without_the_variables_opentelemetry_is_not_even_imported() -> None:
    code = (
        "import sys, actors.telemetry.observer as t\n"
        "telemetry = t.Telemetry({})\n"
        "telemetry.close()\n"
        "assert not [m for m in sys.modules if m.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=patient(60))


def test_a_wrong_variable_costs_the_traces_and_one_sentence_but_not_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", OTLP["OTEL_EXPORTER_OTLP_ENDPOINT"])
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "many")
    telemetry = Telemetry({})
    telemetry.observe(member_event())
    telemetry.close()
    assert [m for m in caplog.messages if m.startswith("traces cannot be exported: ValueError")]
    assert [m for m in caplog.messages if "left" in m]


@pytest.mark.parametrize("protocol", TRANSPORTS)
def test_an_unreachable_backend_is_told_in_one_sentence_and_harms_nothing(
    protocol: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    telemetry = Telemetry({})
    telemetry.observe(rebalance())
    telemetry.close(3)
    assert telemetry.drops.spans == 4
    (said,) = [message for message in caplog.messages if "spans were not delivered" in message]
    assert said.startswith("4 spans were not delivered: ")
    assert [m for m in caplog.messages if "group orders: rebalance" in m]


def test_every_trigger_reaches_the_trace_as_text() -> None:
    for trigger in RebalanceTrigger:
        root = root_of(traced(rebalance(trigger=trigger)))
        value = (root.attributes or {})["rollcall.rebalance.trigger"]
        assert type(value) is str
