"""The story of a rebalance of a consumer, share or streams group: a new target, its takeover."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from protocol.groups.facts import MemberEvent
from protocol.stories import causes, members, movement, parts
from protocol.stories.classic_draft import ENDINGS
from protocol.stories.members import Names
from protocol.stories.recent_events import EVENTS_PER_GROUP
from protocol.stories.story import SHARE, RebalanceStory, StoryOutcome, Wait, Waited, cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from protocol.groups.facts import GroupReconciled, TargetAssigned, TargetChange
    from protocol.stories.movement import Movement, Unit


class TargetDraft:
    """The story of a target that members are taking over, until its end is known."""

    def __init__(
        self, fact: TargetAssigned, events: Sequence[MemberEvent], *, is_converted: bool
    ) -> None:
        """``events`` are those since the group changed; ``is_converted``: its type is new."""
        self.epoch = fact.epoch_after
        self._ended_ms = fact.ended_ms  # and not the fact, which has its bytes
        self._gone_until_ms = fact.started_ms if _is_timed(fact) else fact.ended_ms
        self._names = self._named(fact)
        self._held: Mapping[str, tuple[Unit, ...]] = {}
        self.story = self._begin(fact, events, is_converted=is_converted)

    def settled(self, fact: GroupReconciled, events: Sequence[MemberEvent]) -> RebalanceStory:
        """Return the story when every member has its share, or none is left."""
        waits = self.story.waits
        waited_ms = fact.time_ms - fact.assigned_ms
        if waited_ms and fact.last is not None:
            who = self._names.unique(members.of_record(*fact.last))
            waits += (Waited(what=Wait.RECONCILE, wait_ms=waited_ms, who=(who,)),)
        elif waited_ms and fact.members:
            waits += self._waited_for_gone(events, waited_ms)
        outcome = StoryOutcome.STABLE if fact.members else StoryOutcome.EMPTY
        return self._end(replace(self.story, waits=waits, outcome=outcome), fact.time_ms, events)

    def restarted(self, fact: TargetAssigned, events: Sequence[MemberEvent]) -> RebalanceStory:
        """Return the story when the next target comes before everybody has this one."""
        waits = self.story.waits
        waited_ms = fact.ended_ms - self._ended_ms
        gone = self._waited_for_gone(events, waited_ms)
        if fact.awaited_count:
            late = [self._names.unique(each) for each in members.of_named(fact.awaited)]
            who, _ = parts.first(late)
            waits += (
                Waited(
                    what=Wait.RECONCILE,
                    wait_ms=waited_ms,
                    who=who,
                    more=fact.awaited_count - len(who),
                ),
            )
        waits += gone
        return self._end(
            replace(self.story, waits=waits, outcome=StoryOutcome.RESTARTED), fact.ended_ms, events
        )

    def ended(
        self, outcome: StoryOutcome, time_ms: int, events: Sequence[MemberEvent]
    ) -> RebalanceStory:
        """Return the story when it ends in another way."""
        return self._end(replace(self.story, outcome=outcome), time_ms, events)

    @staticmethod
    def _named(fact: TargetAssigned) -> Names:
        known = {} if fact.change is None else fact.change.members
        return Names({each: members.of_record(each, metadata) for each, metadata in known.items()})

    def _begin(
        self, fact: TargetAssigned, events: Sequence[MemberEvent], *, is_converted: bool
    ) -> RebalanceStory:
        change: Movement | None = None
        if fact.change is not None and fact.change.is_whole:
            spares = _spares(fact.change, events)
            change = movement.of_target(fact.group_type, fact.change, spares=spares)
        names, is_unknown = self._names, fact.partitions_moved == movement.NOT_COUNTED
        moves, more_moves = parts.moves(change, names, fact.units) if change else ((), 0)
        if change is None:
            more_moves = 0 if is_unknown else fact.partitions_moved
        else:
            self._held = change.held
        cause, who = causes.of_target(fact, is_converted=is_converted), None
        if isinstance(fact.cause, MemberEvent):
            names.add(members.of_event(fact.cause))
            who = names.unique(members.of_event(fact.cause))
        told, more_events = parts.happened(events, names)
        return RebalanceStory(
            group_id=fact.group_id,
            node_id=-1,
            number=0,
            cause=cause,
            outcome=StoryOutcome.UNDER_WAY,
            started_ms=fact.changed_ms,
            ended_ms=fact.ended_ms,
            group_type=fact.group_type,
            before=fact.epoch_before,
            after=fact.epoch_after,
            who=who,
            reason=cut(fact.cause.reason) if isinstance(fact.cause, MemberEvent) else "",
            assignor=cut(fact.assignor),
            members=fact.members,
            members_changed=fact.members_changed,
            waits=_before_takeover(fact),
            queue_ms=fact.queue_ms,
            assignor_ms=fact.assignor_ms,
            fix_ups=fact.fix_ups,
            units=fact.units,
            total=_total(fact, change),
            moved=change.moved if change else (None if is_unknown else fact.partitions_moved),
            added=None if change is None else change.added,
            dropped=None if change is None else change.dropped,
            revoked=None if change is None else change.revoked,
            moves=moves,
            more_moves=more_moves,
            events=told,
            more_events=more_events,
            failover_ms=causes.failover_ms(fact.elected_ms, fact.changed_ms),
            inferred=cut(fact.inferred),
        )

    def _waited_for_gone(self, events: Sequence[MemberEvent], waited_ms: int) -> tuple[Waited, ...]:
        """Return the wait for members that are gone since the target took effect."""
        since_ms = self._ended_ms
        gone = [
            each
            for each in parts.gone_of(events)
            if each.time_ms > since_ms and each.kind in ENDINGS
        ]
        if not gone:
            return ()
        who, more = parts.first([self._names.unique(members.of_event(each)) for each in gone])
        waited_ms = min(waited_ms, gone[-1].time_ms - since_ms)
        ended = ENDINGS[gone[0].kind]
        return (Waited(what=Wait.RECONCILE, wait_ms=waited_ms, who=who, more=more, ended=ended),)

    def _end(
        self, story: RebalanceStory, ended_ms: int, events: Sequence[MemberEvent]
    ) -> RebalanceStory:
        gone = [each for each in parts.gone_of(events) if each.time_ms <= self._gone_until_ms]
        unserved, more_unserved = parts.unserved(
            gone, self._held, self._names, (ended_ms, story.units)
        )
        told, more_events = parts.happened(events, self._names)
        return replace(
            story,
            ended_ms=ended_ms,
            unserved=unserved,
            more_unserved=more_unserved,
            events=told,
            more_events=more_events,
        )


def _is_timed(fact: TargetAssigned) -> bool:
    """Whether it is known when the assignor ran: no record has it."""
    return fact.assignor_ms is not None


def _before_takeover(fact: TargetAssigned) -> tuple[Waited, ...]:
    """Return what was waited for before members could take the target over.

    Where only records are known, it is not known when the assignor began, nor what it waited for.
    """
    if not _is_timed(fact):
        until_ms = fact.ended_ms - fact.changed_ms
        return (Waited(what=Wait.TARGET, wait_ms=until_ms),) if until_ms > 0 else ()
    until_ms = fact.started_ms - fact.changed_ms
    if until_ms <= 0:
        return ()
    if fact.expected is not None:
        return (parts.expected(fact.expected, until_ms),)
    return () if fact.cause is None else (Waited(what=Wait.INTERVAL, wait_ms=until_ms),)


def _total(fact: TargetAssigned, change: Movement | None) -> int | None:
    """Return how many units are assigned; of a share group with others unchanged, may be.

    Partitions of a share group have no owner before their share state is initialized.
    """
    if fact.change is None:
        return None
    if change is not None and fact.group_type == SHARE and fact.members_changed == fact.members:
        return change.total
    return fact.change.total


def _spares(change: TargetChange, events: Sequence[MemberEvent]) -> list[str]:
    """Return the members that became spares: they have no target any more, and did not go.

    After so many events that some are forgotten, nobody can tell them from members that are gone.
    """
    if len(events) >= EVENTS_PER_GROUP:
        return []
    gone = {each.member_id for each in parts.gone_of(events)}
    gone |= {each.previous_member_id for each in events if each.previous_member_id is not None}
    have_targets = {member_id for member_id, _ in change.after}
    return [each for each in change.before if each not in gone and each not in have_targets]
