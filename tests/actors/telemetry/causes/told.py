"""What was told of a group: its stories, and the spans of its traces as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actors.telemetry.drops import TelemetryDrops
from actors.telemetry.traces import Traces
from failover.partitions.results import UnreplicatedResults
from protocol.groups.facts import RebalanceEnded, TargetAssigned
from protocol.stories.story import StoryOutcome
from protocol.stories.teller import StoryTeller

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from protocol.groups.classic.partitions_moved import PartitionMovement
    from protocol.groups.facts import Fact
    from protocol.stories.story import RebalanceStory

REPLICATED_MS: Final = 2
UNCHANGED: Final = StoryOutcome.UNCHANGED

SHOWN: Final = (
    "rollcall.rebalance.cause",
    "rollcall.rebalance.trigger",
    "rollcall.rebalance.outcome",
    "rollcall.assignor.where",
    "messaging.client.id",
)
"""The attributes that a line shows, by their last words."""


def stories(facts: Iterable[Fact]) -> list[RebalanceStory]:
    """Tell the stories: of each the last revision, in the order of their numbers."""
    teller, found = StoryTeller(0), {}
    for fact in facts:
        for story in teller.tell(fact):
            found[story.key] = story
    return list(found.values())


def replicated(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Give the facts, and that each result is replicated two milliseconds after its append."""
    results = UnreplicatedResults(7)
    for end_offset, fact in enumerate(facts):
        yield fact
        if isinstance(fact, TargetAssigned | RebalanceEnded):
            now = fact.ended_ms if isinstance(fact, TargetAssigned) else fact.phases[-1].ended_ms
            results.appended([fact], {fact.group_id}, end_offset, now)
            yield from results.committed(end_offset, now + REPLICATED_MS)


def spans(facts: Iterable[Fact], moved: PartitionMovement | None = None) -> Sequence[ReadableSpan]:
    """Export the traces into memory; the spans, in the order in which they ended."""
    exporter, drops = InMemorySpanExporter(), TelemetryDrops()
    traces = Traces({"service.instance.id": 0}, drops, exporter)
    for fact in replicated(facts):
        traces.tell(fact, moved if isinstance(fact, RebalanceEnded) else None)
    traces.close(10)
    assert not drops.spans
    return exporter.get_finished_spans()


def tree_of(story: RebalanceStory, found: Sequence[ReadableSpan]) -> list[str]:
    """The spans of the story's trace as lines, those below another one indented."""
    number = "generation" if story.group_type == "classic" else "epoch"
    for span in found:
        said = span.attributes or {}
        after = said.get(f"rollcall.{number}.after")
        is_unchanged = said.get("rollcall.rebalance.outcome") == story.outcome == UNCHANGED
        if span.parent is None and (is_unchanged or after == story.after):
            return list(_lines(span, found, ""))
    return []


def _lines(span: ReadableSpan, found: Sequence[ReadableSpan], indent: str) -> Iterator[str]:
    said = span.attributes or {}
    shown = [f"{name.rpartition('.')[2]}={said[name]!s}" for name in SHOWN if name in said]
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.context is not None
    took = f"{(span.end_time - span.start_time) // 10**6} ms"
    yield " ".join((f"{indent}{span.name}", took, *shown))
    own = [each for each in found if each.parent and each.parent.span_id == span.context.span_id]
    for each in sorted(own, key=lambda each: (each.start_time or 0, each.end_time or 0)):
        yield from _lines(each, found, f"{indent}  ")
