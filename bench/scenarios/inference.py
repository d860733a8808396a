"""To what each rebalance of a group can be put down, by what its members did and saw. Pure.

A coordinator of ours knows the cause, and names it (:mod:`protocol.stories.causes`); Apache Kafka
tells it only to its log. So the cause is inferred, in the same way for every cluster: each new
generation is due to the first change of the membership that no earlier generation had seen.

What is inferred is coarser: a member that is gone without a word may have ended its session, or
missed a rebalance. :mod:`bench.histories.episodes` infers from rows that hold less still: not when
a run changed a subscription.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from failover.drills.verdict import EXPELLED
from protocol.members.history import MemberHistoryKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from bench.scenarios.plan import Life
    from failover.drills.verdict import MemberTimeline
    from protocol.members.history import MemberHistoryEvent
    from protocol.wire.embedded import TopicPartition

TOLD: Final = frozenset({MemberHistoryKind.JOINED, MemberHistoryKind.ASSIGNED})


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
class _Change:
    """A change of the membership; ``generation`` is the first that can have seen it."""

    time_ms: int
    cause: InferredCause
    generation: int = 0


def inferred_causes(lives: Sequence[RecordedLife], since_ms: int) -> dict[str, int]:
    """Count a group's rebalances since a point in time by their causes."""
    told, assigned = _first(lives, TOLD), _first(lives, {MemberHistoryKind.ASSIGNED})
    before = max((each for each, at_ms in assigned.items() if at_ms < since_ms), default=-1)
    changes = sorted(_changes(lives), key=lambda change: change.time_ms)
    found: Counter[InferredCause] = Counter()
    for generation in sorted(assigned):
        seen = [
            change
            for change in changes
            if change.time_ms <= told[generation] and change.generation <= generation
        ]
        cause = _cause(seen)
        if generation > before:
            found[cause] += 1
        used = {*_explained(seen, cause)}
        changes = [change for change in changes if change not in used]
    return {cause.value: found[cause] for cause in InferredCause if found[cause]}


def _cause(seen: Iterable[_Change]) -> InferredCause:
    causes = [change.cause for change in seen]
    sure = [cause for cause in causes if cause not in FALLBACKS]
    if sure:
        return next((cause for cause in sure if cause is not InferredCause.REVOKED), sure[0])
    return next((cause for cause in FALLBACKS if cause in causes), InferredCause.OTHER)


def _explained(seen: Sequence[_Change], cause: InferredCause) -> list[_Change]:
    """Return the changes that a generation with this cause has dealt with."""
    if cause in FALLBACKS:
        return [next(change for change in seen if change.cause is cause)]
    return [change for change in seen if change.cause not in FALLBACKS]


def _first(lives: Iterable[RecordedLife], kinds: Collection[MemberHistoryKind]) -> dict[int, int]:
    """Return when a member was first told each generation: its membership is settled then."""
    times: dict[int, int] = {}
    for each in lives:
        for event in each.timeline.events:
            if event.kind in kinds:
                known = times.get(event.generation, event.time_ms)
                times[event.generation] = min(known, event.time_ms)
    return times


def _changes(lives: Iterable[RecordedLife]) -> Iterator[_Change]:
    by_name: dict[str, list[RecordedLife]] = defaultdict(list)
    for each in lives:
        by_name[each.life.name].append(each)
    for same in by_name.values():
        same.sort(key=lambda each: each.life.number)
        for number, each in enumerate(same):
            yield from _begin(each, same[number - 1] if number else None)
            yield from _end(each, same[number + 1] if number + 1 < len(same) else None)
            yield from _expulsions(each)
            yield from _revocations(each)
            for time_ms in each.subscribed_ms:
                yield _Change(time_ms, InferredCause.SUBSCRIBED)


def _begin(each: RecordedLife, before: RecordedLife | None) -> Iterator[_Change]:
    first = _first_told(each)
    if first is None:
        return
    if before is None or not each.timeline.is_static:
        yield _Change(each.started_ms, InferredCause.JOINED, first)
    elif first != _last_told(before):
        yield _Change(each.started_ms, InferredCause.RETURNED, first)


def _end(each: RecordedLife, after: RecordedLife | None) -> Iterator[_Change]:
    """Tell a leave, or that the session of what ended without a word ends later."""
    if each.ended_ms is None or _first_told(each) is None:
        return
    if each.timeline.is_static:
        if after is None or _first_told(after) != _last_told(each):
            yield _Change(each.ended_ms, InferredCause.EXPIRED)
        return
    left = any(event.kind is MemberHistoryKind.LEFT for event in each.timeline.events)
    yield _Change(each.ended_ms, InferredCause.LEFT if left else InferredCause.EXPIRED)


def _expulsions(each: RecordedLife) -> Iterator[_Change]:
    """Tell when the coordinator gave up a member that lived on, and that it joined again."""
    heard_ms = each.started_ms
    for number, event in enumerate(each.timeline.events):
        if event.kind is MemberHistoryKind.LOST and event.error in EXPELLED:
            yield _Change(heard_ms, InferredCause.EXPIRED)
            again = [later for later in each.timeline.events[number:] if later.kind in TOLD]
            if again:
                yield _Change(event.time_ms, InferredCause.JOINED, again[0].generation)
        elif event.kind in TOLD or event.kind is MemberHistoryKind.HEARTBEAT:
            heard_ms = event.time_ms


def _revocations(each: RecordedLife) -> Iterator[_Change]:
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
                yield _Change(gave_up.time_ms, InferredCause.REVOKED, event.generation)
            gave_up = None


def _first_told(each: RecordedLife) -> int | None:
    return next((e.generation for e in each.timeline.events if e.kind in TOLD), None)


def _last_told(each: RecordedLife) -> int | None:
    told = [e.generation for e in each.timeline.events if e.kind in TOLD]
    return told[-1] if told else None
