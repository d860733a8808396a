"""The spans of a rebalance and their attributes, made of facts: plain values, nothing is sent.

The names of spans are few, so that a backend can group by them; who a span is about is in its
attributes. Of a large group the slowest members have a span, and the others are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from failover.catalogue.topic_names import CONSUMER_OFFSETS
from protocol.groups.facts import MemberEvent, MemberEventKind
from protocol.stories import causes, members

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from protocol.groups.classic.partitions_moved import PartitionMovement
    from protocol.groups.facts import (
        NamedMember,
        RebalanceEnded,
        ResultReplicated,
        TakenOver,
        TargetAssigned,
        TopicsCause,
    )

Attributes: TypeAlias = "Mapping[str, str | int | float | None]"

SLOWEST_MAX: Final = 10
"""The members of a group that have a span of their own: those that were last."""

REJOINS: Final = frozenset(
    {MemberEventKind.JOINED, MemberEventKind.REJOINED, MemberEventKind.REPLACED}
)


@dataclass(frozen=True, slots=True)
class ChildSpan:
    """A span below the root or another one; both ends in Unix milliseconds.

    ``is_run``: it stands for the run of the assignor, which a worker may tell more about.
    """

    name: str
    started_ms: int
    ended_ms: int
    attributes: Attributes = field(default_factory=dict)
    spans: tuple[ChildSpan, ...] = ()
    is_run: bool = False


# --- the spans of a classic group


def classic_spans(fact: RebalanceEnded, events: Sequence[MemberEvent]) -> tuple[ChildSpan, ...]:
    """Return the spans of a classic group's rebalance; ``events`` are those of its time."""
    join, *later = fact.phases
    who = {
        "messaging.client.id": fact.client_id,
        "rollcall.member.id": fact.member_id,
        "rollcall.member.instance_id": fact.group_instance_id,
        "rollcall.rebalance.reason": fact.reason,
        "rollcall.rebalance.trigger": fact.trigger,
    }
    own = [each for each in events if each.kind in REJOINS and each.time_ms <= join.ended_ms]
    last = {each.member_id: each for each in own}
    rejoins = [
        ChildSpan("rejoin", join.started_ms, each.time_ms, _who_of_event(each))
        for each in sorted(last.values(), key=lambda each: each.time_ms)[-SLOWEST_MAX:]
    ]
    counted: Attributes = {"rollcall.members.seen": len(last)}
    leader: Attributes = {"rollcall.leader.id": fact.leader_id}
    return (
        ChildSpan("trigger", join.started_ms, join.started_ms, who),
        ChildSpan(join.name, join.started_ms, join.ended_ms, counted, tuple(rejoins)),
        *(ChildSpan(each.name, each.started_ms, each.ended_ms, leader) for each in later),
    )


def classic_attributes(fact: RebalanceEnded, moved: PartitionMovement | None) -> Attributes:
    """Return the attributes of a classic group's root span."""
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
        "rollcall.rebalance.inferred": fact.inferred,
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


# --- the spans of a consumer, share or streams group


def modern_spans(
    fact: TargetAssigned,
    ended_ms: int,
    replicated: ResultReplicated | None,
    takeovers: tuple[Sequence[TakenOver], Sequence[NamedMember]],
) -> tuple[ChildSpan, ...]:
    """Return the spans of another group's rebalance.

    ``takeovers`` are the last members that took the target over, and those that had not.
    """
    trigger = trigger_span(fact.cause, fact.changed_ms)
    replicate = () if replicated is None else (replicate_span(replicated),)
    if not fact.members:  # no assignor ran, and nobody takes anything over
        return (trigger, *replicate)
    return (
        trigger,
        *_made(fact),
        *replicate,
        _reconcile(fact, ended_ms, takeovers),
    )


def trigger_span(cause: MemberEvent | TopicsCause | None, time_ms: int) -> ChildSpan:
    """Return what bumped the group epoch, or replaced a static member, and when (Unix ms)."""
    said: Attributes = (
        {**_who_of_event(cause), "rollcall.member.silent_ms": cause.silent_ms}
        if isinstance(cause, MemberEvent)
        else {}
    )
    told: Attributes = {**said, "rollcall.rebalance.trigger": trigger_of(cause)}
    return ChildSpan("trigger", time_ms, time_ms, told)


def _made(fact: TargetAssigned) -> tuple[ChildSpan, ...]:
    """Return how the target was made; of a watched Kafka only when it was there is known."""
    queue_ms, assignor_ms = fact.queue_ms, fact.assignor_ms
    if queue_ms is None or assignor_ms is None:
        return (ChildSpan("wait", fact.changed_ms, fact.ended_ms),)
    wait = ChildSpan("wait", fact.changed_ms, fact.started_ms)
    return wait, _assign(fact, queue_ms, assignor_ms), _write(fact)


def _assign(fact: TargetAssigned, queue_ms: float, assignor_ms: float) -> ChildSpan:
    """Return the run of the assignor; the times of its parts count back from its end."""
    begun, ended = fact.started_ms, fact.computed_ms
    computing = max(ended - round(assignor_ms), begun)
    queued = max(computing - round(queue_ms), begun)
    return ChildSpan(
        "assign",
        begun,
        ended,
        {
            "rollcall.assignor.name": fact.assignor,
            "rollcall.assignor.where": "in-place" if fact.in_place else "worker",
            "rollcall.assignor.queue_ms": round(queue_ms, 3),
            "rollcall.assignor.run_ms": round(assignor_ms, 3),
        },
        (
            ChildSpan("queue", queued, computing),
            ChildSpan("compute", computing, ended, {"rollcall.assignor.name": fact.assignor}),
        ),
        is_run=True,
    )


def _write(fact: TargetAssigned) -> ChildSpan:
    begun, ended = fact.computed_ms, fact.ended_ms
    fix_ups: Attributes = {"rollcall.assignor.fix_ups": fact.fix_ups}
    rows: Attributes = {"rollcall.members.changed": fact.members_changed}
    mended = (ChildSpan("fix-up", begun, begun, fix_ups),) if fact.fix_ups else ()
    return ChildSpan(
        "write", begun, ended, spans=(*mended, ChildSpan("append", begun, ended, rows))
    )


def _reconcile(
    fact: TargetAssigned,
    ended_ms: int,
    takeovers: tuple[Sequence[TakenOver], Sequence[NamedMember]],
) -> ChildSpan:
    taken_over, awaited = takeovers
    begun = fact.ended_ms
    late = [_takeover(begun, ended_ms, each, awaited=True) for each in awaited]
    done = [_takeover(begun, each.time_ms, each.member) for each in taken_over]
    shown = [*done, *late][-SLOWEST_MAX:]
    counted: Attributes = {
        "rollcall.members": fact.members,
        "rollcall.members.not_shown": max(fact.members - len(shown), 0),
    }
    return ChildSpan("reconcile", begun, ended_ms, counted, tuple(shown))


def _takeover(
    begun: int, ended_ms: int, member: NamedMember, *, awaited: bool = False
) -> ChildSpan:
    who = members.of_record(*member)
    said: Attributes = {
        "messaging.client.id": who.client_id,
        "rollcall.member.id": who.member_id,
        "rollcall.member.instance_id": who.instance_id,
        "rollcall.member.host": who.host,
        "rollcall.member.awaited": "true" if awaited else None,
    }
    return ChildSpan("take-over", begun, max(begun, ended_ms), said)


def modern_attributes(fact: TargetAssigned, cause: causes.Cause) -> Attributes:
    """Return the attributes of another group's root span, but for its outcome."""
    return {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": fact.group_id,
        "rollcall.group.type": fact.group_type,
        "rollcall.rebalance.cause": cause,
        **_cause(fact.cause),
        "rollcall.rebalance.inferred": fact.inferred,
        "rollcall.epoch.before": fact.epoch_before,
        "rollcall.epoch.after": fact.epoch_after,
        "rollcall.assignor.name": fact.assignor,
        "rollcall.members": fact.members,
        "rollcall.members.changed": fact.members_changed,
        "rollcall.partitions.moved": fact.partitions_moved if fact.partitions_moved >= 0 else None,
    }


def _cause(cause: MemberEvent | TopicsCause | None) -> Attributes:
    """Return what bumped the group epoch, if known."""
    trigger = trigger_of(cause)
    if not isinstance(cause, MemberEvent):
        return {"rollcall.rebalance.trigger": trigger}
    said = dict(member_attributes(cause))
    reason = said.pop("rollcall.member.reason")
    return {**said, "rollcall.rebalance.reason": reason, "rollcall.rebalance.trigger": trigger}


def trigger_of(cause: MemberEvent | TopicsCause | None) -> str | None:
    """Return what bumped the group epoch, in one word; None: it is not known."""
    return f"member-{cause.kind}" if isinstance(cause, MemberEvent) else cause


# --- a static member that came back unchanged


def replaced_attributes(event: MemberEvent) -> Attributes:
    """Return the attributes of the root span of a replacement that rebalances nothing."""
    return {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": event.group_id,
        "rollcall.rebalance.cause": causes.Cause.STATIC_REPLACED,
        **_cause(event),
        "rollcall.rebalance.outcome": "unchanged",
        "rollcall.rebalance.inferred": event.inferred,
    }


# --- what all have


def append_span(ended_ms: int, fact: ResultReplicated) -> ChildSpan:
    """Return the time from the end of a classic group's rebalance to the append of its result."""
    return ChildSpan("append", min(ended_ms, fact.appended_ms), fact.appended_ms)


def replicate_span(fact: ResultReplicated) -> ChildSpan:
    """Return the time from the append of a result to its commit."""
    said: Attributes = {
        "messaging.destination.name": CONSUMER_OFFSETS,
        "messaging.destination.partition.id": str(fact.partition),
        "rollcall.log.end_offset": fact.end_offset,
    }
    return ChildSpan("replicate", fact.appended_ms, max(fact.time_ms, fact.appended_ms), said)


def member_attributes(event: MemberEvent) -> Attributes:
    """Return who an event is about, and why it happened."""
    return {
        "rollcall.member.id": event.member_id,
        "rollcall.member.instance_id": event.group_instance_id,
        "rollcall.member.previous_id": event.previous_member_id,
        "rollcall.member.host": event.client_host,
        "rollcall.member.reason": event.reason,
        "messaging.client.id": event.client_id,
    }


def _who_of_event(event: MemberEvent) -> dict[str, str | int | float | None]:
    return {
        "messaging.client.id": event.client_id,
        "rollcall.member.id": event.member_id,
        "rollcall.member.instance_id": event.group_instance_id,
    }


def names_in(spans: Iterable[ChildSpan]) -> set[str]:
    """Return the names of spans, and of those below them."""
    found: set[str] = set()
    for span in spans:
        found |= {span.name, *names_in(span.spans)}
    return found
