"""The tables of docs/tracing.md have the spans and the attributes that there are."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actors.logs.leader_changes import BEGINNINGS, ChangeReason, LeaderChange
from actors.telemetry.compute_traces import ComputeTraces
from actors.telemetry.drops import TelemetryDrops
from actors.telemetry.root_names import CAME_BACK, PREFIX, ROOT_NAMES
from actors.telemetry.run_contexts import RunContexts
from actors.telemetry.traces import Traces
from protocol.groups.classic.partitions_moved import PartitionMovement
from protocol.groups.facts import TargetAssignmentFailed
from protocol.stories.causes import Cause
from tests.actors.telemetry.causes import told
from tests.actors.telemetry.causes.test_causes import TYPES
from tests.actors.telemetry.facts import (
    NOW,
    consumer_rebalance,
    member_event,
    rebalance,
    reconciled,
    target_assigned,
)
from tests.actors.telemetry.rebalances import awaited_twice

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

TEXT: Final = (Path(__file__).parents[3] / "docs" / "tracing.md").read_text()
ROOTS: Final = (PREFIX, CAME_BACK)
NAME: Final = re.compile(r"`((?:messaging|rollcall|process)\.[a-z_.]+)`")


@cache
def everything() -> tuple[ReadableSpan, ...]:
    """The spans of all situations, and of what no situation has."""
    found: list[ReadableSpan] = []
    for situations in TYPES.values():
        for situation in situations.values():
            found += told.spans(situation().facts)
    failed = TargetAssignmentFailed(
        group_id="orders", group_type="consumer", epoch=5, time_ms=NOW, reason="no", is_final=False
    )
    moved = PartitionMovement(assigned=4, moved=2, added=0, dropped=0)
    replaced = member_event(previous_member_id="was")
    found += told.spans([replaced, failed, target_assigned(fix_ups=2), reconciled()])
    found += told.spans(awaited_twice())
    found += told.spans([*consumer_rebalance(), rebalance(inferred="a guess")], moved)
    return (*found, *of_a_worker(), *of_a_leader())


def of_a_worker() -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    traces = ComputeTraces({}, exporter)
    known = {"messaging.system": "kafka", "messaging.consumer.group.name": "g", "process.pid": 1}
    traces.tell(RunContexts().begin("g", 1), (1, 2), known)
    traces.close(10)
    return list(exporter.get_finished_spans())


def of_a_leader() -> list[ReadableSpan]:
    exporter, resource = InMemorySpanExporter(), {"service.instance.id": "coordinator-2"}
    traces = Traces(resource, TelemetryDrops(), exporter)
    reason = ChangeReason.SILENT
    traces.tell_leader(
        LeaderChange(partition=7, epoch=5, at_ms=NOW, begins=True, reason=reason, node=1)
    )
    traces.close(10)
    return list(exporter.get_finished_spans())


def rows(head: str) -> list[list[str]]:
    """The cells of the rows of the table with this head."""
    lines = TEXT[TEXT.index(head) :].splitlines()[2:]
    table = lines[: lines.index("")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_table_has_the_spans() -> None:
    names = {row[0].strip("`") for row in rows("| Span | Below |")}
    found = {span.name.partition(":")[0] for span in everything()}
    assert found == names | {"rebalance", "failover", CAME_BACK}


def test_the_table_has_the_names_of_root_spans() -> None:
    listed = rows("| Root span |")
    assert listed == [
        *([f"`{name}`", f"`{cause}`"] for cause, name in ROOT_NAMES.items()),
        [f"`{CAME_BACK}`", f"`{Cause.STATIC_REPLACED}`"],
    ]
    assert list(ROOT_NAMES) == list(Cause)
    assert len({*ROOT_NAMES.values()}) == len(Cause)


def test_a_root_span_is_named_by_its_cause_and_has_the_group_as_an_attribute() -> None:
    roots = [each for each in everything() if each.name.startswith(PREFIX)]
    for each in roots:
        said = each.attributes or {}
        assert each.name == ROOT_NAMES[Cause(said["rollcall.rebalance.cause"])]
        assert said["messaging.consumer.group.name"]
    assert len(roots) > len({each.name for each in roots})


def test_a_span_is_below_the_one_that_the_table_says() -> None:
    below = {
        row[0].strip("`"): [each.strip("` ") for each in row[1].split(",")]
        for row in rows("| Span | Below |")
    }
    names = {span.context.span_id: span.name for span in everything() if span.context}
    for span in everything():
        if span.parent is not None and span.parent.span_id in names:
            above = names[span.parent.span_id]
            assert ("root" if above.startswith(ROOTS) else above) in below[span.name]


def test_the_table_has_the_attributes() -> None:
    listed = {name for row in rows("| Attribute | On |") for name in NAME.findall(row[0])}
    found: set[str] = set()
    for span in everything():
        found |= {*(span.attributes or {})}
        for event in span.events:
            found |= {*(event.attributes or {})}
    assert found == listed


def test_the_reasons_of_failovers_are_listed() -> None:
    (said,) = (row[2] for row in rows("| Attribute | On |") if "failover.reason" in row[0])
    assert re.findall(r"`([a-z-]+)`", said) == [reason.value for reason in BEGINNINGS]


def test_an_attribute_is_on_the_spans_that_the_table_says() -> None:
    on = {
        name: row[1].replace("`", "").split(", ")
        for row in rows("| Attribute | On |")
        for name in NAME.findall(row[0])
    }
    for span in everything():
        where = "root" if span.name.startswith(ROOTS) else span.name
        wrong = {name for name in span.attributes or {} if where not in on[name]}
        assert not wrong, (where, wrong)
        for event in span.events:
            wrong = {
                name for name in event.attributes or {} if not {"event", "events"} & {*on[name]}
            }
            assert not wrong, (event.name, wrong)
