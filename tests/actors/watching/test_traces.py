"""A watched group's rebalances become traces, which say what was inferred."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from typing import Any

from actors.cli.explain import story_as_json, story_lines
from actors.console.drawing import steps
from actors.telemetry.log_messages import log_message
from actors.telemetry.rebalance_spans import names_in
from actors.telemetry.rebalance_traces import RebalanceTraces, Trace
from protocol.groups.facts import Fact, TargetAssigned
from protocol.groups.modern.reconcile import MemberState
from protocol.records import Record, encode
from protocol.stories import json_form
from protocol.stories.sentence import sentence
from protocol.stories.story import Wait
from protocol.watching.watch import ClusterWatch
from tests.protocol.watching.records import (
    NOW,
    Watched,
    current,
    epoch,
    generation,
    gone,
    joined,
    member,
    targets,
)


def traced(*writes: list[tuple[Any, Any]]) -> list[Trace]:
    """Return the traces of what was written, at once each second."""
    watch, traces, found = ClusterWatch(), RebalanceTraces(), []
    for number, records in enumerate(writes):
        for record in records:
            for fact in watch.take(*encode(Record(*record)), NOW + number * 1_000):
                found += traces.tell(fact, None)
    return found


def test_a_classic_group() -> None:
    first, second = traced(
        [generation(0)],
        [generation(1, member("a", 0), since=NOW + 500)],
        [generation(2, member("a", 0), member("b", 1))],
    )
    assert (first.started_ms, first.ended_ms) == (NOW, NOW + 1_000)
    assert first.attributes["rollcall.rebalance.inferred"] == "it is new in generation 1"
    assert [span.name for span in second.spans] == ["trigger", "join", "sync"]
    assert second.attributes["rollcall.rebalance.trigger"] == "member-joined"


def test_a_group_with_targets() -> None:
    first, second = traced(
        [joined("a"), epoch(2), *targets(2, {"a": (0,)}), current("a", 2, 0)],
        [*gone("a"), epoch(3)],
    )
    assert first.attributes["rollcall.rebalance.inferred"] == ""  # and so it is left out
    assert first.attributes["rollcall.rebalance.outcome"] == "stable"
    assert second.attributes["rollcall.rebalance.trigger"] == "member-gone"
    assert second.attributes["rollcall.rebalance.outcome"] == "empty"
    assert str(second.attributes["rollcall.rebalance.inferred"]).startswith(
        "it left or its session"
    )


def test_who_took_a_target_over_and_when() -> None:
    _, second, third = traced(
        [joined("a"), epoch(2), *targets(2, {"a": (0, 1)}), current("a", 2, 0, 1)],
        [joined("b"), epoch(3), *targets(3, {"a": (0,), "b": (1,)}), waits("b", 3)],
        [current("a", 3, 0)],
        [current("b", 3, 1)],
        [joined("c"), epoch(4), *targets(4, {"a": (), "c": (0,)}), waits("c", 4)],
        [current("a", 4)],
        [joined("d"), epoch(5), *targets(5, {"b": (), "d": (1,)}), waits("d", 5)],
    )
    assert second.attributes["rollcall.rebalance.outcome"] == "stable"
    assert takeovers(second) == [("a", 1_000, None), ("b", 2_000, None)]
    assert third.attributes["rollcall.rebalance.outcome"] == "restarted"
    assert takeovers(third) == [("a", 1_000, None), ("b", 2_000, "true"), ("c", 2_000, "true")]


def test_times_that_no_record_has_are_not_told() -> None:
    """When and where an assignor ran: neither in spans, nor stories, nor the log."""
    watched, facts = Watched(), list[Fact]()
    for records in (
        (joined("a", server_assignor="uniform"), epoch(2)),
        (*targets(2, {"a": (0, 1)}), current("a", 2, 0, 1)),
    ):
        for each in records:
            facts += watched.watch.take(*encode(Record(*each)), watched.now)
        watched.now += 1_500
    watched.tell(facts)
    traces = RebalanceTraces()
    (trace,) = (each for fact in facts for each in traces.tell(fact, None))
    assert isinstance(trace, Trace)
    assert names_in(trace.spans) == {"trigger", "wait", "reconcile", "take-over"}
    wait = trace.spans[1]
    assert (wait.started_ms, wait.ended_ms) == (NOW, NOW + 1_500)
    (story,) = watched.stories.values()
    told = " ".join(story_lines(story, Namespace(verbose=True)))
    assert "queue" not in told
    assert "computed" not in told
    assert "fix-ups" not in told
    assert "assignor uniform" in told
    as_json = story_as_json(story)
    assert [as_json[each] for each in ("queue_ms", "assignor_ms", "fix_ups")] == [None] * 3
    assert json_form.read(json_form.write(story)) == story
    assert [(each.what, each.wait_ms) for each in story.waits] == [(Wait.TARGET, 1_500)]
    (line,) = (log_message(each) for each in facts if isinstance(each, TargetAssigned))
    assert "in 1500 ms, uniform: " in line


def test_the_steps_of_a_rebalance_come_in_the_order_of_its_spans() -> None:
    """First the new target was awaited, then its takeover: no part of it is left over."""
    watched, facts = Watched(), list[Fact]()
    for after_ms, records in (
        (0, [joined("a"), epoch(2), *targets(2, {"a": (0, 1)}), current("a", 2, 0, 1)]),
        (60_000, [joined("b"), epoch(3)]),
        (4_400, targets(3, {"a": (0,), "b": (1,)})),
        (200, [current("a", 3, 0)]),
        (400, [current("b", 3, 1)]),
    ):
        watched.now += after_ms
        for each in records:
            facts += watched.watch.take(*encode(Record(*each)), watched.now)
    watched.tell(facts)
    traces = RebalanceTraces()
    *_, trace = (each for fact in facts for each in traces.tell(fact, None))
    *_, story = watched.stories.values()
    assert [(each.name, each.begin, each.length) for each in steps(story)] == [
        ("until the target is written", 0, 880),
        ("members take over", 880, 120),
    ]
    spans = [(each.name, each.ended_ms - each.started_ms) for each in trace.spans]
    assert spans == [("trigger", 0), ("wait", 4_400), ("reconcile", 600)]
    assert sentence(story).endswith(
        "joined; waited 4.4 s until the new target was written; waited 0.6 s for b;"
        " 1 of 4 partitions moved"
    )


def test_what_nobody_has_counted_is_not_told() -> None:
    watch, found = ClusterWatch(), list[Trace]()
    traces = RebalanceTraces()
    for records in ([joined("a"), epoch(2)], [*targets(2, {"a": (0,)}), current("a", 2, 0)]):
        for record in records:
            for fact in watch.take(*encode(Record(*record)), NOW):
                if isinstance(fact, TargetAssigned):
                    fact = replace(fact, partitions_moved=-1)  # noqa: PLW2901
                found += traces.tell(fact, None)
    assert found[0].attributes["rollcall.partitions.moved"] is None


def waits(name: str, number: int) -> tuple[Any, Any]:
    """Return the record of a member whose partitions others still have."""
    return current(name, number, state=MemberState.UNRELEASED_PARTITIONS)


def takeovers(trace: Trace) -> list[tuple[object, int, object]]:
    """Return who had its target, or had it not, and how long after the start that was."""
    return [
        (
            each.attributes["messaging.client.id"],
            each.ended_ms - trace.started_ms,
            each.attributes["rollcall.member.awaited"],
        )
        for each in trace.spans[-1].spans
    ]
