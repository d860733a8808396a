"""The story of a classic group's rebalance, from the report of its end and its members' events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.facts import MemberEventKind, RebalanceOutcome
from protocol.stories import causes, members, movement, parts
from protocol.stories.members import Names
from protocol.stories.story import RebalanceStory, StoryOutcome, Wait, Waited, cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from protocol.groups.facts import MemberEvent, RebalanceEnded
    from protocol.records import MemberMetadata

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
MEMBERS_NAMED_MAX: Final = 5_000
"""In groups with more members, owners are given by their ids."""

OUTCOMES: Final[Mapping[RebalanceOutcome, StoryOutcome]] = {
    RebalanceOutcome.STABLE: StoryOutcome.STABLE,
    RebalanceOutcome.EMPTY: StoryOutcome.EMPTY,
    RebalanceOutcome.RESTARTED: StoryOutcome.RESTARTED,
}
ENDINGS: Final[Mapping[MemberEventKind, str]] = {
    MemberEventKind.NOT_REJOINED: "did not join in time and was removed",
    MemberEventKind.EXPIRED: "then expired",
    MemberEventKind.LEFT: "then left",
    MemberEventKind.NOT_SYNCED: "did not fetch its assignment and was removed",
}
"""How a wait ends for a member that did not do what was awaited."""


def draft(fact: RebalanceEnded, events: Sequence[MemberEvent]) -> RebalanceStory:
    """Tell the rebalance; ``events`` are those of its time, the oldest first."""
    named = [*fact.members_before, *fact.members_after]
    by_name = {_lasting_name(each): members.of_classic(each) for each in named[:MEMBERS_NAMED_MAX]}
    names = Names(by_name if len(named) <= MEMBERS_NAMED_MAX else {})
    who = members.of_event(fact) if fact.member_id else None
    if who is not None:
        names.add(who)
    started_ms, ended_ms = fact.phases[0].started_ms, fact.phases[-1].ended_ms
    is_stable = fact.outcome is RebalanceOutcome.STABLE
    change = None
    if fact.protocol_type == CONSUMER:
        change = movement.of_classic(fact.assignments_before, fact.assignments_after)
    counted = change if is_stable else None
    moves, more_moves = parts.moves(counted, names, "partitions") if counted else ((), 0)
    gone = parts.gone_of(events)
    held = {} if change is None else change.held
    unserved, more_unserved = parts.unserved(gone, held, names, (ended_ms, "partitions"))
    told, more_events = parts.happened(events, names)
    return RebalanceStory(
        group_id=fact.group_id,
        node_id=-1,
        number=0,
        cause=causes.of_trigger(fact.trigger, fact.reason),
        outcome=OUTCOMES[fact.outcome],
        started_ms=started_ms,
        ended_ms=ended_ms,
        group_type=CLASSIC,
        before=fact.generation_before,
        after=fact.generation_after,
        who=None if who is None else names.unique(who),
        reason=cut(fact.reason),
        assignor=cut(fact.protocol_name),
        leader=names.of(_lasting_leader(fact)),
        members=len(fact.members_after) if is_stable else 0,
        waits=tuple(_waits(fact, events, names)),
        total=None if counted is None else counted.total,
        moved=None if counted is None else counted.moved,
        added=None if counted is None else counted.added,
        dropped=None if counted is None else counted.dropped,
        revoked=None if counted is None else counted.revoked,
        moves=moves,
        more_moves=more_moves,
        unserved=unserved,
        more_unserved=more_unserved,
        events=told,
        more_events=more_events,
        failover_ms=causes.failover_ms(fact.elected_ms, started_ms),
        inferred=cut(fact.inferred),
    )


def _waits(fact: RebalanceEnded, events: Sequence[MemberEvent], names: Names) -> list[Waited]:
    join = fact.phases[0]
    waits = []
    if join.ended_ms > join.started_ms:
        if fact.expected is not None:
            waits.append(parts.expected(fact.expected, join.ended_ms - join.started_ms))
        elif fact.is_initial:
            waits.append(Waited(what=Wait.INITIAL, wait_ms=join.ended_ms - join.started_ms))
        elif (wait := _joined_last(fact, events, names)) is not None:
            waits.append(wait)
    for phase in fact.phases[1:]:
        if phase.ended_ms > phase.started_ms:
            leader = names.who(_lasting_leader(fact))
            waits.append(
                Waited(
                    what=Wait.ASSIGNMENT,
                    wait_ms=phase.ended_ms - phase.started_ms,
                    who=(leader,),
                )
            )
    return waits


def _joined_last(
    fact: RebalanceEnded, events: Sequence[MemberEvent], names: Names
) -> Waited | None:
    """Return whom the join phase waited for: who was removed at its end, or who joined last."""
    join = fact.phases[0]
    late = [
        each
        for each in parts.gone_of(events)
        if each.time_ms == join.ended_ms and each.kind in ENDINGS
    ]
    late = [each for each in late if each.member_id != fact.member_id or len(late) == 1]
    if late:
        who, more = parts.first([names.unique(members.of_event(each)) for each in late])
        waited_ms = join.ended_ms - join.started_ms
        ended = ENDINGS[late[0].kind]
        return Waited(what=Wait.JOIN, wait_ms=waited_ms, who=who, more=more, ended=ended)
    last = fact.last_joined
    if last is None:
        return Waited(what=Wait.JOIN, wait_ms=join.ended_ms - join.started_ms)
    waited_ms = last.time_ms - join.started_ms
    return Waited(what=Wait.JOIN, wait_ms=waited_ms, who=(names.unique(members.of_event(last)),))


def _lasting_name(member: MemberMetadata) -> str:
    return member.group_instance_id or member.member_id


def _lasting_leader(fact: RebalanceEnded) -> str:
    for each in fact.members_after:
        if each.member_id == fact.leader_id:
            return _lasting_name(each)
    return fact.leader_id
