"""Builds traces of rebalances from facts, as plain values; ``traces`` exports them.

A classic group's rebalance is one fact. That of a consumer, share or streams group (KIP-848) starts
with what bumped the group epoch, continues with an assignor run whose result is written, and ends
when every member has its new target assignment or when the next target replaces it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from protocol.groups.facts import (
    GroupConverted,
    GroupDeleted,
    GroupReconciled,
    MemberEvent,
    RebalanceEnded,
    RebalanceOutcome,
    TargetAssigned,
    TargetAssignmentFailed,
    TopicsCause,
    TopicsChanged,
)
from protocol.stories import causes
from protocol.stories.recent_events import RecentEvents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from protocol.groups.classic.partitions_moved import PartitionMovement
    from protocol.groups.facts import Fact

EVENTS_PER_TRACE_MAX: Final = 128
EVENTS_KEPT_MAX: Final = 50_000
"""The limit over all groups; those of the least recently active group are dropped first."""

RECONCILING_MAX: Final = 10_000
"""The limit of groups that may be reconciling; beyond it the oldest gets no trace."""

CONVERTED: Final = "group-converted"
"""The outcome of a rebalance that ends because the group is converted."""

Attributes: TypeAlias = "Mapping[str, str | int | float | None]"
GroupEvent: TypeAlias = MemberEvent | TopicsChanged | TargetAssignmentFailed | GroupConverted


@dataclass(frozen=True, slots=True)
class ChildSpan:
    """A span below the root; both ends in Unix milliseconds."""

    name: str
    started_ms: int
    ended_ms: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event of the root span, in Unix milliseconds."""

    name: str
    time_ms: int
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Trace:
    """One rebalance; its ``spans`` are consecutive. Attributes that are None are left out."""

    group_id: str
    attributes: Attributes
    spans: tuple[ChildSpan, ...]
    events: tuple[SpanEvent, ...]

    @property
    def started_ms(self) -> int:
        """The start, in Unix milliseconds."""
        return self.spans[0].started_ms

    @property
    def ended_ms(self) -> int:
        """The end, in Unix milliseconds."""
        return self.spans[-1].ended_ms


@dataclass(frozen=True, slots=True)
class _Reconciling:
    """A target that members are taking over, and what caused it."""

    fact: TargetAssigned
    cause: causes.Cause


class RebalanceTraces:
    """Builds traces from facts in order; keeps facts that a later one completes."""

    def __init__(self) -> None:
        self._recent = RecentEvents[GroupEvent](EVENTS_PER_TRACE_MAX, EVENTS_KEPT_MAX)
        self._reconciling: OrderedDict[str, _Reconciling] = OrderedDict()
        self._converted: OrderedDict[str, None] = OrderedDict()

    def tell(self, fact: Fact, moved: PartitionMovement | None) -> Iterator[Trace]:
        """Add a fact; return the trace that it completes, if any."""
        group_id = fact.group_id
        match fact:
            case RebalanceEnded():
                yield self._classic(fact, moved)
            case GroupReconciled():
                yield from self._end(group_id, fact.time_ms, _outcome(fact))
            case TargetAssigned():
                yield from self._end(group_id, fact.ended_ms, RebalanceOutcome.RESTARTED)
                is_converted = self._converted.pop(group_id, 0) is None
                cause = causes.of_target(fact, is_converted=is_converted)
                _put(self._reconciling, group_id, _Reconciling(fact, cause))
            case GroupDeleted():
                self._recent.forget(group_id)
                self._reconciling.pop(group_id, None)
                self._converted.pop(group_id, None)
            case GroupConverted():
                yield from self._end(group_id, fact.time_ms, CONVERTED)
                self._recent.add(fact)
                _put(self._converted, group_id, None)
            case _:
                self._recent.add(fact)

    def _classic(self, fact: RebalanceEnded, moved: PartitionMovement | None) -> Trace:
        started_ms, ended_ms = fact.phases[0].started_ms, fact.phases[-1].ended_ms
        events = self._recent.take(fact.group_id, started_ms, ended_ms, ended_ms)
        spans = (ChildSpan(each.name, each.started_ms, each.ended_ms) for each in fact.phases)
        return Trace(
            fact.group_id, _classic_attributes(fact, moved), tuple(spans), _span_events(events)
        )

    def _end(self, group_id: str, ended_ms: int, outcome: str) -> Iterator[Trace]:
        """End the rebalance of a group that is not classic, if one is in progress."""
        reconciling = self._reconciling.pop(group_id, None)
        if reconciling is None:
            return
        fact = reconciling.fact
        # Events during the assignor run may have started the next rebalance.
        events = self._recent.take(group_id, fact.changed_ms, ended_ms, fact.started_ms)
        attributes = {
            **_modern_attributes(fact, reconciling.cause),
            "rollcall.rebalance.outcome": outcome,
        }
        spans = (
            ChildSpan("wait", fact.changed_ms, fact.started_ms),
            ChildSpan("assign", fact.started_ms, fact.computed_ms, _run_attributes(fact)),
            ChildSpan("write", fact.computed_ms, fact.ended_ms),
            ChildSpan("reconcile", fact.ended_ms, ended_ms),
        )
        yield Trace(group_id, attributes, spans, _span_events(events))


V = TypeVar("V")


def _put(kept: OrderedDict[str, V], group_id: str, value: V) -> None:
    """Keep a value for a group; beyond the limit the oldest makes room."""
    kept[group_id] = value
    if len(kept) > RECONCILING_MAX:
        kept.popitem(last=False)


def _outcome(fact: GroupReconciled) -> str:
    return RebalanceOutcome.STABLE if fact.members else RebalanceOutcome.EMPTY


def _classic_attributes(fact: RebalanceEnded, moved: PartitionMovement | None) -> Attributes:
    is_stable = fact.outcome == "stable"
    attributes: dict[str, str | int | float | None] = {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": fact.group_id,
        "messaging.client.id": fact.client_id,
        "rollcall.group.type": "classic",
        "rollcall.rebalance.cause": causes.of_trigger(fact.trigger, fact.reason),
        "rollcall.rebalance.trigger": fact.trigger,
        "rollcall.rebalance.outcome": fact.outcome,
        "rollcall.rebalance.reason": fact.reason,
        "rollcall.member.id": fact.member_id,
        "rollcall.member.instance_id": fact.group_instance_id,
        "rollcall.member.host": fact.client_host,
        "rollcall.generation.before": fact.generation_before,
        "rollcall.generation.after": fact.generation_after,
        "rollcall.protocol.type": fact.protocol_type,
        "rollcall.protocol.name": fact.protocol_name,
        "rollcall.leader.id": fact.leader_id,
        "rollcall.members": len(fact.assignments_after) if is_stable else None,
    }
    if moved is not None and is_stable:
        attributes |= {
            "rollcall.partitions.assigned": moved.assigned,
            "rollcall.partitions.moved": moved.moved,
            "rollcall.partitions.added": moved.added,
            "rollcall.partitions.dropped": moved.dropped,
        }
    return attributes


def _modern_attributes(fact: TargetAssigned, cause: causes.Cause) -> Attributes:
    return {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": fact.group_id,
        "rollcall.group.type": fact.group_type,
        "rollcall.rebalance.cause": cause,
        **_cause(fact.cause),
        "rollcall.epoch.before": fact.epoch_before,
        "rollcall.epoch.after": fact.epoch_after,
        "rollcall.assignor.name": fact.assignor,
        "rollcall.members": fact.members,
        "rollcall.members.changed": fact.members_changed,
        "rollcall.partitions.moved": fact.partitions_moved,
    }


def _cause(cause: MemberEvent | TopicsCause | None) -> Attributes:
    """Return what bumped the group epoch, if known."""
    if not isinstance(cause, MemberEvent):
        return {"rollcall.rebalance.trigger": cause}
    said = dict(_member_attributes(cause))
    reason = said.pop("rollcall.member.reason")
    trigger = f"member-{cause.kind}"
    return {**said, "rollcall.rebalance.reason": reason, "rollcall.rebalance.trigger": trigger}


def _run_attributes(fact: TargetAssigned) -> Attributes:
    return {
        "rollcall.assignor.name": fact.assignor,
        "rollcall.assignor.where": "in-place" if fact.in_place else "worker",
        "rollcall.assignor.queue_ms": round(fact.queue_ms, 3),
        "rollcall.assignor.run_ms": round(fact.assignor_ms, 3),
    }


def _span_events(events: Iterable[GroupEvent]) -> tuple[SpanEvent, ...]:
    return tuple(_span_event(event) for event in events)


def _span_event(event: GroupEvent) -> SpanEvent:
    match event:
        case MemberEvent():
            return SpanEvent(event.kind, event.time_ms, _member_attributes(event))
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


def _member_attributes(event: MemberEvent) -> Attributes:
    return {
        "rollcall.member.id": event.member_id,
        "rollcall.member.instance_id": event.group_instance_id,
        "rollcall.member.previous_id": event.previous_member_id,
        "rollcall.member.host": event.client_host,
        "rollcall.member.reason": event.reason,
        "messaging.client.id": event.client_id,
    }
