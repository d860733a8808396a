"""Builds traces of rebalances from facts, as plain values; ``traces`` exports them.

A classic group's rebalance is one fact. That of a consumer, share or streams group (KIP-848) starts
with what bumped the group epoch, continues with an assignor run whose result is written, and ends
when every member has its new target assignment or when the next target replaces it. That the result
is replicated may be known only after the trace has ended: it is then a late span. Of a classic
group so is the append of its result.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from actors.telemetry.rebalance_spans import (
    Attributes,
    ChildSpan,
    append_span,
    classic_attributes,
    classic_spans,
    member_attributes,
    modern_attributes,
    modern_spans,
    replaced_attributes,
    replicate_span,
    trigger_span,
)
from protocol.groups.facts import (
    GroupConverted,
    GroupDeleted,
    GroupReconciled,
    MemberEvent,
    RebalanceEnded,
    RebalanceOutcome,
    ResultReplicated,
    TargetAssigned,
    TargetAssignmentFailed,
    TopicsChanged,
)
from protocol.stories import causes
from protocol.stories.recent_events import RecentEvents, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from protocol.groups.classic.partitions_moved import PartitionMovement
    from protocol.groups.facts import Fact, NamedMember, TakenOver

EVENTS_PER_TRACE_MAX: Final = 128
EVENTS_KEPT_MAX: Final = 50_000
"""The limit over all groups; those of the least recently active group are dropped first."""

RECONCILING_MAX: Final = 10_000
"""The limit of groups that may be reconciling; beyond it the oldest gets no trace."""

CONVERTED: Final = "group-converted"
"""The outcome of a rebalance that ends because the group is converted."""

GroupEvent: TypeAlias = MemberEvent | TopicsChanged | TargetAssignmentFailed | GroupConverted
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event of the root span, in Unix milliseconds."""

    name: str
    time_ms: int
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Trace:
    """One rebalance, or static member that came back. Attributes that are None are left out.

    ``number`` is its generation or epoch (0: there was no rebalance), ``run`` the number of the
    assignor's run (0: none).
    ``failover_ms`` is when its coordinator had taken over (Unix ms), None: long before.
    """

    group_id: str
    number: int
    cause: causes.Cause
    attributes: Attributes
    spans: tuple[ChildSpan, ...]
    events: tuple[SpanEvent, ...]
    run: int = 0
    failover_ms: int | None = None

    @property
    def started_ms(self) -> int:
        """The start, in Unix milliseconds."""
        return self.spans[0].started_ms

    @property
    def ended_ms(self) -> int:
        """The end, in Unix milliseconds."""
        return self.spans[-1].ended_ms


@dataclass(frozen=True, slots=True)
class LateSpans:
    """Spans below the root of a rebalance whose trace has ended before."""

    group_id: str
    number: int
    spans: tuple[ChildSpan, ...]


@dataclass(frozen=True, slots=True)
class _Reconciling:
    """A target that members are taking over, what caused it, and when it was replicated."""

    fact: TargetAssigned
    cause: causes.Cause
    replicated: ResultReplicated | None = None


class RebalanceTraces:
    """Builds traces from facts in order; keeps facts that a later one completes."""

    def __init__(self) -> None:
        self._recent = RecentEvents[GroupEvent](EVENTS_PER_TRACE_MAX, EVENTS_KEPT_MAX)
        self._reconciling: OrderedDict[str, _Reconciling] = OrderedDict()
        self._converted: OrderedDict[str, None] = OrderedDict()
        self._unreplicated: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def tell(
        self, fact: Fact, moved: PartitionMovement | None, *, is_outlived: bool = False
    ) -> Iterator[Trace | LateSpans]:
        """Add a fact; return the trace that it completes, if any.

        ``is_outlived``: many static members of its group came back at once, and this one gets no
        trace (:func:`~protocol.stories.teller.outlived`).
        """
        group_id = fact.group_id
        match fact:
            case RebalanceEnded():
                yield self._classic(fact, moved)
            case GroupReconciled():
                yield from self._end(group_id, fact.time_ms, _outcome(fact), (fact.taken_over, ()))
            case TargetAssigned():
                takeovers = (fact.taken_over, fact.awaited)
                ended_ms, outcome = fact.ended_ms, RebalanceOutcome.RESTARTED
                yield from self._end(group_id, ended_ms, outcome, takeovers)
                is_converted = self._converted.pop(group_id, 0) is None
                cause = causes.of_target(fact, is_converted=is_converted)
                _put(self._reconciling, group_id, _Reconciling(_kept(fact), cause))
            case ResultReplicated():
                yield from self._replicated(fact)
            case GroupDeleted():
                self._recent.forget(group_id)
                self._reconciling.pop(group_id, None)
                self._converted.pop(group_id, None)
                self._unreplicated.pop(group_id, None)
            case GroupConverted():
                yield from self._end(group_id, fact.time_ms, CONVERTED, ((), ()))
                self._recent.add(fact)
                _put(self._converted, group_id, None)
            case MemberEvent(changes_nothing=True):
                self._recent.add(fact)
                if not is_outlived:
                    yield _replaced(fact)
            case _:
                self._recent.add(fact)

    def _classic(self, fact: RebalanceEnded, moved: PartitionMovement | None) -> Trace:
        started_ms, ended_ms = fact.phases[0].started_ms, fact.phases[-1].ended_ms
        events = self._recent.take(fact.group_id, started_ms, ended_ms, ended_ms)
        own = [each for each in events if isinstance(each, MemberEvent)]
        is_new = not fact.generation_before
        if fact.outcome is not RebalanceOutcome.RESTARTED:
            _put(self._unreplicated, fact.group_id, (fact.generation_after, ended_ms))
        return Trace(
            fact.group_id,
            fact.generation_after,
            causes.of_trigger(fact.trigger, fact.reason),
            classic_attributes(fact, moved),
            classic_spans(fact, own),
            _span_events(events),
            failover_ms=None if is_new else _failover(fact.elected_ms, started_ms),
        )

    def _replicated(self, fact: ResultReplicated) -> Iterator[LateSpans]:
        generation, ended_ms = self._unreplicated.get(fact.group_id, (None, 0))
        if generation == fact.number:  # of a classic group
            del self._unreplicated[fact.group_id]
            spans = (append_span(ended_ms, fact), replicate_span(fact))
            yield LateSpans(fact.group_id, fact.number, spans)
            return
        known = self._reconciling.get(fact.group_id)
        if known is not None and known.fact.epoch_after == fact.number:
            self._reconciling[fact.group_id] = replace(known, replicated=fact)
        else:
            yield LateSpans(fact.group_id, fact.number, (replicate_span(fact),))

    def _end(
        self,
        group_id: str,
        ended_ms: int,
        outcome: str,
        takeovers: tuple[Sequence[TakenOver], Sequence[NamedMember]],
    ) -> Iterator[Trace]:
        """End the rebalance of a group that is not classic, if one is in progress."""
        known = self._reconciling.pop(group_id, None)
        if known is None:
            return
        fact = known.fact
        # Events during the assignor run may have started the next rebalance.
        events = self._recent.take(group_id, fact.changed_ms, ended_ms, fact.started_ms)
        attributes = {
            **modern_attributes(fact, known.cause),
            "rollcall.rebalance.outcome": outcome,
        }
        spans = modern_spans(fact, ended_ms, known.replicated, takeovers)
        failover_ms = _failover(fact.elected_ms, fact.changed_ms) if fact.epoch_before else None
        yield Trace(
            group_id,
            fact.epoch_after,
            known.cause,
            attributes,
            spans,
            _span_events(events),
            run=fact.run,
            failover_ms=failover_ms,
        )


def _replaced(event: MemberEvent) -> Trace:
    return Trace(
        event.group_id,
        0,
        causes.Cause.STATIC_REPLACED,
        replaced_attributes(event),
        (trigger_span(event, event.time_ms),),
        (),
    )


def _kept(fact: TargetAssigned) -> TargetAssigned:
    """Return what a trace tells of a target: thousands may wait for their ends."""
    cause = shortened(fact.cause) if isinstance(fact.cause, MemberEvent) else fact.cause
    return replace(shortened(fact), cause=cause, change=None)


def _put(kept: OrderedDict[str, V], group_id: str, value: V) -> None:
    """Keep a value for a group; beyond the limit the oldest makes room."""
    kept[group_id] = value
    if len(kept) > RECONCILING_MAX:
        kept.popitem(last=False)


def _failover(elected_ms: int | None, started_ms: int) -> int | None:
    return None if causes.failover_ms(elected_ms, started_ms) is None else elected_ms


def _outcome(fact: GroupReconciled) -> str:
    return RebalanceOutcome.STABLE if fact.members else RebalanceOutcome.EMPTY


def _span_events(events: Iterable[GroupEvent]) -> tuple[SpanEvent, ...]:
    return tuple(_span_event(event) for event in events)


def _span_event(event: GroupEvent) -> SpanEvent:
    match event:
        case MemberEvent():
            return SpanEvent(event.kind, event.time_ms, member_attributes(event))
        case TopicsChanged():
            return SpanEvent(event.cause, event.time_ms, {"rollcall.epoch": event.epoch})
        case GroupConverted():
            told: Attributes = {
                "rollcall.group.type": event.group_type,
                "rollcall.members": event.members,
            }
            return SpanEvent(CONVERTED, event.time_ms, told)
        case TargetAssignmentFailed():
            failure: Attributes = {
                "rollcall.epoch": event.epoch,
                "rollcall.assignor.error": event.reason,
            }
            return SpanEvent("run-failed", event.time_ms, failure)
