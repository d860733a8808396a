"""To what each rebalance of a group can be put down, by what its members did and saw. Pure.

A coordinator of ours knows the cause, and names it (:mod:`protocol.stories.causes`); Apache Kafka
tells it only to its log. So the cause is inferred, in the same way for every cluster: each new
generation is due to the first change of the membership that no earlier generation had seen.

What is inferred is coarser: a member that is gone without a word may have ended its session, or
missed a rebalance. How long sessions last tells only which silent member it was: a failover begins
them again. :mod:`bench.histories.episodes` infers from rows that hold less still: not when a run
changed a subscription.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from failover.drills.verdict import EXPELLED
from protocol.members.history import MemberHistoryKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from bench.scenarios.plan import Life
    from bench.scenarios.values import Protocol as GroupProtocol
    from failover.drills.verdict import MemberTimeline
    from protocol.members.history import MemberHistoryEvent
    from protocol.wire.embedded import TopicPartition

TOLD: Final = frozenset({MemberHistoryKind.JOINED, MemberHistoryKind.ASSIGNED})
SIGNS: Final = TOLD | {MemberHistoryKind.HEARTBEAT, MemberHistoryKind.REBALANCING}
"""Answers after which the session of their member begins again. A commit renews that of a member of
a classic group only, and it heartbeats as well."""

TOLERANCE_MS: Final = 1_000
"""Members see an answer later than the coordinator its request: a session ends sooner than they
think, by so much at most."""

NO_SESSIONS: Final[Mapping[tuple[str, GroupProtocol | None], int]] = MappingProxyType({})


class RecordedLife(Protocol):
    """What must be known of a life: :class:`bench.scenarios.record.LifeRecord`."""

    @property
    def life(self) -> Life:
        """Which life it is."""

    @property
    def started_ms(self) -> int:
        """When it started."""

    @property
    def ended_ms(self) -> int | None:
        """When the plan ended it."""

    @property
    def timeline(self) -> MemberTimeline:
        """What its member was told."""

    @property
    def subscribed_ms(self) -> Sequence[int]:
        """When it changed its subscription."""


class InferredCause(StrEnum):
    """Why a group seems to have rebalanced, to somebody who sees only its members."""

    JOINED = "joined"
    LEFT = "left"
    SUBSCRIBED = "subscribed"
    REVOKED = "revoked"
    EXPIRED = "expired"
    RETURNED = "returned"
    OTHER = "other"


FALLBACKS: Final = (InferredCause.EXPIRED, InferredCause.RETURNED)
"""What explains a generation, in this order, if no member joined, left, subscribed or revoked.

The session of a silent member ends some time later; a static member that returns seldom causes a
rebalance.
"""


@dataclass(frozen=True, slots=True, eq=False)
class MembershipChange:
    """A change of the membership; ``generation`` is the first that can have seen it.

    ``time_ms`` is when a silent member fell silent, and ``due_ms`` when its session ends: None if
    that is not known.
    """

    time_ms: int
    cause: InferredCause
    name: str
    generation: int = 0
    due_ms: int | None = None

    @property
    def began_ms(self) -> int:
        """When a rebalance can have begun because of it."""
        return self.time_ms if self.due_ms is None else self.due_ms

    def distance_ms(self, told_ms: int) -> int:
        """Return how far the end of its session is from a generation; 0 if that is not known."""
        return 0 if self.due_ms is None else abs(self.due_ms - told_ms)


@dataclass(frozen=True, slots=True)
class CausedGeneration:
    """A generation, when a member was first told it, and the changes that it deals with.

    Those of its cause come first. There is none if the cause is ``OTHER``.
    """

    generation: int
    told_ms: int
    cause: InferredCause
    changes: Sequence[MembershipChange]


def inferred_causes(
    lives: Sequence[RecordedLife],
    since_ms: int,
    sessions: Mapping[tuple[str, GroupProtocol | None], int] = NO_SESSIONS,
) -> dict[str, int]:
    """Count a group's rebalances since a point in time by their causes."""
    assigned = _first(lives, {MemberHistoryKind.ASSIGNED})
    before = max((each for each, at_ms in assigned.items() if at_ms < since_ms), default=-1)
    found = Counter(
        each.cause for each in caused_generations(lives, sessions) if each.generation > before
    )
    return {cause.value: found[cause] for cause in InferredCause if found[cause]}


def caused_generations(
    lives: Sequence[RecordedLife],
    sessions: Mapping[tuple[str, GroupProtocol | None], int] = NO_SESSIONS,
) -> list[CausedGeneration]:
    """Return the generations that members of a group were given assignments in, with their causes.

    ``sessions``: how long they last, by group and protocol, as far as that is known.
    """
    told, assigned = _first(lives, TOLD), _first(lives, {MemberHistoryKind.ASSIGNED})
    changes = sorted(_changes(lives, sessions), key=lambda each: (each.time_ms, each.name))
    found = []
    silent: set[MembershipChange] = set()
    before_ms = -1
    for generation in sorted(assigned):
        told_ms = told[generation]
        seen = [
            change
            for change in changes
            if change.time_ms <= told_ms and change.generation <= generation
        ]
        cause = _cause(seen)
        used = _explained(seen, cause, told_ms)
        ended = [
            change
            for change in seen
            if change.due_ms is not None
            and change not in silent
            and before_ms < change.due_ms <= told_ms + TOLERANCE_MS
        ]
        named = _named(used, ended, cause)
        found.append(CausedGeneration(generation, told_ms, cause, named))
        silent.update(change for change in named if change.cause is InferredCause.EXPIRED)
        dealt_with = {*used}
        changes = [change for change in changes if change not in dealt_with]
        before_ms = told_ms
    return found


def _cause(seen: Iterable[MembershipChange]) -> InferredCause:
    causes = [change.cause for change in seen]
    sure = [cause for cause in causes if cause not in FALLBACKS]
    if sure:
        return next((cause for cause in sure if cause is not InferredCause.REVOKED), sure[0])
    return next((cause for cause in FALLBACKS if cause in causes), InferredCause.OTHER)


def _explained(
    seen: Sequence[MembershipChange], cause: InferredCause, told_ms: int
) -> list[MembershipChange]:
    """Return the changes that a generation with this cause has dealt with.

    Of silent members it is the one whose session ended nearest to it.
    """
    if cause in FALLBACKS:
        alike = [change for change in seen if change.cause is cause]
        return [min(alike, key=lambda change: change.distance_ms(told_ms))]
    return [change for change in seen if change.cause not in FALLBACKS]


def _named(
    used: Sequence[MembershipChange], ended: Sequence[MembershipChange], cause: InferredCause
) -> list[MembershipChange]:
    """Return what a generation is put down to, in words: its cause, and what else it saw.

    ``ended`` are the sessions that ended before it. That partitions are given up is nothing of its
    own, unless it is the cause.
    """
    if cause in (InferredCause.OTHER, InferredCause.RETURNED):
        return [*used]
    told = dict.fromkeys([*used, *ended])
    if cause is not InferredCause.REVOKED:
        told = {each: None for each in told if each.cause is not InferredCause.REVOKED}
    return sorted(told, key=lambda each: (each.cause is not cause, each.began_ms, each.name))


def _first(lives: Iterable[RecordedLife], kinds: Collection[MemberHistoryKind]) -> dict[int, int]:
    """Return when a member was first told each generation: its membership is settled then."""
    times: dict[int, int] = {}
    for each in lives:
        for event in each.timeline.events:
            if event.kind in kinds:
                known = times.get(event.generation, event.time_ms)
                times[event.generation] = min(known, event.time_ms)
    return times


def _changes(
    lives: Iterable[RecordedLife], sessions: Mapping[tuple[str, GroupProtocol | None], int]
) -> Iterator[MembershipChange]:
    by_name: dict[str, list[RecordedLife]] = defaultdict(list)
    for each in lives:
        by_name[each.life.name].append(each)
    for same in by_name.values():
        same.sort(key=lambda each: each.life.number)
        for number, each in enumerate(same):
            session_ms = sessions.get((each.life.group, each.life.protocol))
            before = same[number - 1] if number else None
            after = same[number + 1] if number + 1 < len(same) else None
            yield from _begin(each, before)
            yield from _end(each, after, session_ms)
            yield from _expulsions(each, session_ms)
            yield from _revocations(each)
            for time_ms in each.subscribed_ms:
                yield MembershipChange(time_ms, InferredCause.SUBSCRIBED, each.life.name)


def _begin(each: RecordedLife, before: RecordedLife | None) -> Iterator[MembershipChange]:
    first, name = _first_told(each), each.life.name
    if first is None:
        return
    if before is None or not each.timeline.is_static:
        yield MembershipChange(each.started_ms, InferredCause.JOINED, name, first)
    elif first != _last_told(before):
        yield MembershipChange(each.started_ms, InferredCause.RETURNED, name, first)


def _end(
    each: RecordedLife, after: RecordedLife | None, session_ms: int | None
) -> Iterator[MembershipChange]:
    """Tell a leave, or that the session of what ended without a word ends later."""
    if _first_told(each) is None:
        return
    if each.ended_ms is None:
        yield from _silence(each, session_ms)
        return
    if each.timeline.is_static:
        if after is None or not _is_followed(each, after, session_ms):
            yield _expired(each, each.ended_ms, _heard_ms(each), session_ms)
        return
    if any(event.kind is MemberHistoryKind.LEFT for event in each.timeline.events):
        yield MembershipChange(each.ended_ms, InferredCause.LEFT, each.life.name)
    else:
        yield _expired(each, each.ended_ms, _heard_ms(each), session_ms)


def _is_followed(each: RecordedLife, after: RecordedLife, session_ms: int | None) -> bool:
    """Whether a static member was back before its session ended, as far as can be known.

    One that was refused is not back.
    """
    first = _first_told(after)
    if session_ms is None or first is None:
        return first == _last_told(each)
    return after.started_ms <= _heard_ms(each) + session_ms


def _silence(each: RecordedLife, session_ms: int | None) -> Iterator[MembershipChange]:
    """Tell that a member lives on, and was not heard for a session: it is paused, or failed."""
    seen_ms, heard_ms = each.timeline.seen_ms, _heard_ms(each)
    if session_ms is None or seen_ms is None or heard_ms + session_ms > seen_ms:
        return
    later = [event for event in each.timeline.events if event.time_ms >= heard_ms]
    if not any(event.kind is MemberHistoryKind.LEFT or _expels(event) for event in later):
        yield _expired(each, heard_ms + session_ms, heard_ms, session_ms)


def _expired(
    each: RecordedLife, time_ms: int, heard_ms: int, session_ms: int | None
) -> MembershipChange:
    due_ms = None if session_ms is None else heard_ms + session_ms
    return MembershipChange(time_ms, InferredCause.EXPIRED, each.life.name, due_ms=due_ms)


def _heard_ms(each: RecordedLife) -> int:
    """Return when the coordinator last answered a member that it knows."""
    return max(
        (event.time_ms for event in each.timeline.events if event.kind in SIGNS),
        default=each.started_ms,
    )


def _expels(event: MemberHistoryEvent) -> bool:
    """Whether a member was told that it is none: that it is lost, or replaced."""
    is_end = event.kind in (MemberHistoryKind.LOST, MemberHistoryKind.FAILED)
    return is_end and event.error in EXPELLED


def _expulsions(each: RecordedLife, session_ms: int | None) -> Iterator[MembershipChange]:
    """Tell when the coordinator gave up a member that lived on, and that it joined again."""
    heard_ms = each.started_ms
    for number, event in enumerate(each.timeline.events):
        if event.kind is MemberHistoryKind.LOST and event.error in EXPELLED:
            yield _expired(each, heard_ms, heard_ms, session_ms)
            again = [later for later in each.timeline.events[number:] if later.kind in TOLD]
            if again:
                yield MembershipChange(
                    event.time_ms, InferredCause.JOINED, each.life.name, again[0].generation
                )
        elif event.kind in SIGNS:
            heard_ms = event.time_ms


def _revocations(each: RecordedLife) -> Iterator[MembershipChange]:
    """Tell when a cooperative member gave partitions up: it joined again for that (KIP-429)."""
    if not each.timeline.is_cooperative:
        return
    owned: frozenset[TopicPartition] = frozenset()
    gave_up: MemberHistoryEvent | None = None
    for event in each.timeline.events:
        if event.kind is MemberHistoryKind.ASSIGNED:
            gave_up = None if owned.issubset(event.partitions) else event
            owned = frozenset(event.partitions)
        elif event.kind is MemberHistoryKind.LOST:
            owned, gave_up = frozenset(), None
        elif event.kind is MemberHistoryKind.JOINED and gave_up is not None:
            if event.generation > gave_up.generation:
                yield MembershipChange(
                    gave_up.time_ms, InferredCause.REVOKED, each.life.name, event.generation
                )
            gave_up = None


def _first_told(each: RecordedLife) -> int | None:
    return next((e.generation for e in each.timeline.events if e.kind in TOLD), None)


def _last_told(each: RecordedLife) -> int | None:
    told = [e.generation for e in each.timeline.events if e.kind in TOLD]
    return told[-1] if told else None
