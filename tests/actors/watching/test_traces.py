"""A watched group's rebalances become traces, which say what was inferred."""

from __future__ import annotations

from typing import Any

from actors.telemetry.rebalance_traces import RebalanceTraces, Trace
from protocol.groups.modern.reconcile import MemberState
from protocol.records import Record, encode
from protocol.watching.watch import ClusterWatch
from tests.protocol.watching.records import (
    NOW,
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
