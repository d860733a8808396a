"""Texts of clients of any length, in every place: traces stay small, and harm no others."""

from __future__ import annotations

import dataclasses
import enum
import threading
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actors.telemetry import span_queue
from actors.telemetry.compute_traces import ComputeTraces
from actors.telemetry.drops import TelemetryDrops
from actors.telemetry.log_messages import log_fields, log_message, log_message_for_many
from actors.telemetry.rebalance_traces import EVENTS_PER_TRACE_MAX
from actors.telemetry.run_contexts import RunContexts
from actors.telemetry.span_queue import BATCH_BYTES_MAX, WAITING_BYTES_MAX, size_of
from actors.telemetry.traces import Traces
from protocol.groups.facts import (
    MemberEvent,
    MemberEventKind,
    NamedMember,
    RebalancePhase,
    TakenOver,
    TargetAssignmentFailed,
    TargetChange,
)
from protocol.stories.story import TEXT_MAX
from tests.actors.telemetry.causes import told
from tests.actors.telemetry.causes.test_causes import TYPES
from tests.actors.telemetry.facts import NOW, consumer_rebalance, member_event, rebalance
from tests.actors.telemetry.rebalances import awaited_twice
from tests.actors.telemetry.test_span_table import NAME, rows
from tests.waiting import WITHIN_S, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest
    from opentelemetry.sdk.trace import ReadableSpan

GRPC_BYTES_MAX: Final = 4 << 20
"""The largest message that gRPC servers, such as a Collector's, accept by default."""

LINE_MAX: Final = 20_000
"""Of a log line with seven texts of 255 characters, of which each is escaped by ten."""

LONG: Final = "\N{KISS}" * 32_000
OURS: Final = {"group_type", "units"}
"""Texts of facts that are not from clients or plugins, and neither are names of phases."""

OF_OTHERS: Final = {
    "messaging.consumer.group.name",
    "messaging.client.id",
    "rollcall.rebalance.reason",
    "rollcall.rebalance.inferred",
    "rollcall.member.id",
    "rollcall.member.instance_id",
    "rollcall.member.host",
    "rollcall.member.reason",
    "rollcall.member.previous_id",
    "rollcall.protocol.type",
    "rollcall.protocol.name",
    "rollcall.leader.id",
    "rollcall.assignor.name",
    "rollcall.assignor.error",
}
"""The attributes with texts that clients or plugins chose."""

OF_OURS: Final = {
    "messaging.system",
    "messaging.destination.name",
    "messaging.destination.partition.id",
    "rollcall.group.type",
    "rollcall.rebalance.cause",
    "rollcall.rebalance.trigger",
    "rollcall.rebalance.outcome",
    "rollcall.assignor.where",
    "rollcall.member.awaited",
    "rollcall.failover.partition",
    "rollcall.failover.node",
    "rollcall.failover.reason",
}
"""Those with words of ours. The others of the table are numbers."""


def lengthened(value: Any, name: str = "") -> Any:
    """Make the texts of a fact so long as the protocol allows."""
    if isinstance(value, str):
        ours = isinstance(value, enum.Enum) or name in OURS
        return value if ours or not value else value + LONG
    if isinstance(value, NamedMember):
        said = value.metadata
        known = {each: getattr(said, each, "") for each in ("client_id", "client_host")}
        known["instance_id"] = getattr(said, "instance_id", None)
        longer = {each: lengthened(text) for each, text in known.items()}
        return NamedMember(lengthened(value.member_id), type("Metadata", (), longer))
    if isinstance(value, TakenOver):
        return TakenOver(value.time_ms, lengthened(value.member))
    if isinstance(value, tuple | list):
        return [lengthened(each) for each in value]
    if isinstance(value, RebalancePhase | TargetChange) or not dataclasses.is_dataclass(value):
        return value
    names = [each.name for each in dataclasses.fields(value)]
    changed = {each: lengthened(getattr(value, each), each) for each in names}
    return dataclasses.replace(value, **changed)  # type: ignore[type-var]


def everything() -> list[ReadableSpan]:
    """The spans of all situations, with long texts."""
    failed = TargetAssignmentFailed(
        group_id="orders", group_type="consumer", epoch=5, time_ms=NOW, reason="no", is_final=False
    )
    facts = [member_event(previous_member_id="was"), failed, *consumer_rebalance()]
    facts += [*awaited_twice(), rebalance(inferred="a guess")]
    found = [*told.spans(map(lengthened, facts)), *of_a_worker()]
    for situations in TYPES.values():
        for situation in situations.values():
            found += told.spans(map(lengthened, situation().facts))
    return found


def of_a_worker() -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    traces = ComputeTraces({}, exporter)
    known = {"messaging.consumer.group.name": LONG, "rollcall.assignor.name": LONG}
    traces.tell(RunContexts().begin("g", 1), (1, 2), known)
    traces.close(10)
    return list(exporter.get_finished_spans())


def test_a_text_of_a_client_is_cut_in_every_attribute() -> None:
    cut: set[str] = set()
    for span in everything():
        for said in (span.attributes or {}, *(each.attributes or {} for each in span.events)):
            for name, value in said.items():
                if isinstance(value, str):
                    assert len(value) <= TEXT_MAX, (span.name, name)
                    assert name in OF_OTHERS | OF_OURS
                    if value.endswith("…"):
                        cut.add(name)
    assert cut == OF_OTHERS
    listed = {name for row in rows("| Attribute | On |") for name in NAME.findall(row[0])}
    assert listed >= OF_OTHERS | OF_OURS


def test_a_text_of_a_client_is_cut_in_every_log_line() -> None:
    for situations in TYPES.values():
        for situation in situations.values():
            for fact in map(lengthened, situation().facts):
                line = log_message(fact)
                assert line.isprintable()
                assert len(line) < LINE_MAX, line
                assert max(map(len, log_fields(fact).values())) <= TEXT_MAX
    many = [lengthened(member_event(client_id="\n", member_id=f"{n}")) for n in range(60)]
    assert len(log_message_for_many(many)) < LINE_MAX


class Collector(SpanExporter):
    """Takes spans as a Collector does, which answers or hangs."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, int]] = []
        self.said: list[str] = []
        self.answers = threading.Event()
        self.answers.set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.answers.wait(WITHIN_S)
        self.requests.append((len(spans), encode_spans(spans).ByteSize()))
        self.said += [
            str((each.attributes or {}).get("rollcall.generation.after")) for each in spans
        ]
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing is open."""


def events(group_id: str) -> list[MemberEvent]:
    """As many events as a trace keeps, with long texts."""
    return [
        lengthened(member_event(group_id=group_id, time_ms=NOW + number, kind=kind))
        for number, kind in enumerate([MemberEventKind.REJOINED] * EVENTS_PER_TRACE_MAX)
    ]


def test_a_request_is_smaller_than_what_a_collector_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")
    drops, collector = TelemetryDrops(), Collector()
    traces = Traces({"service.instance.id": 0}, drops, collector)
    for number in range(1, 13):
        for fact in (*events(f"g-{number}"), lengthened(rebalance(group_id=f"g-{number}"))):
            traces.tell(fact, None)
    traces.tell(rebalance(group_id="innocent", generation_after=77), None)
    traces.close(WITHIN_S)
    assert drops.spans == 0
    assert max(size for _, size in collector.requests) < GRPC_BYTES_MAX
    assert len(collector.requests) < 8, "it is not one for each span"
    assert "77" in collector.said


def test_what_waits_for_a_collector_that_hangs_is_bounded_in_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(span_queue, "WAITING_BYTES_MAX", 4 * BATCH_BYTES_MAX)
    drops, collector = TelemetryDrops(), Collector()
    collector.answers.clear()
    traces = Traces({"service.instance.id": 0}, drops, collector)
    for number in range(1, 30):
        for fact in (*events(f"g-{number}"), lengthened(rebalance(group_id=f"g-{number}"))):
            traces.tell(fact, None)
    queue = traces._span_queue
    assert drops.spans > 0
    assert sum(map(size_of, queue._spans)) <= 4 * BATCH_BYTES_MAX
    collector.answers.set()
    until(lambda: not queue._spans, WITHIN_S, "what waited is sent")
    before = drops.spans
    traces.tell(rebalance(generation_after=77), None)
    traces.close(WITHIN_S)
    assert drops.spans == before
    assert "77" in collector.said
    assert WAITING_BYTES_MAX > 4 * BATCH_BYTES_MAX


def test_the_size_of_a_span_is_not_less_than_what_is_sent() -> None:
    for span in everything():
        sent = encode_spans([span]).ByteSize() - encode_spans([]).ByteSize()
        assert size_of(span) >= sent - _resource_bytes(span), span.name


def _resource_bytes(span: ReadableSpan) -> int:
    return 64 + sum(
        len(name) + len(str(value)) + 16 for name, value in span.resource.attributes.items()
    )
