"""What a run of a scenario recorded, and what it cost each group. Pure; times in milliseconds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from bench.histories.rows import holdings
from bench.scenarios.inference import inferred_causes
from failover.drills.verdict import DrillRecord, generations_told, lost_commits, owned_twice
from protocol.members import promises
from protocol.members.history import MemberHistoryKind
from protocol.members.promises import Assigned

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from bench.scenarios.done_faults import DoneFault
    from bench.scenarios.plan import Life
    from bench.scenarios.reads import OffsetsRead
    from bench.scenarios.values import Protocol
    from failover.drills.verdict import MemberTimeline
    from protocol.members.history import MemberHistoryEvent
    from protocol.wire.embedded import TopicPartition

STOPS: Final = frozenset(
    {
        MemberHistoryKind.REBALANCING, MemberHistoryKind.LOST, MemberHistoryKind.JOINED,
    }
)  # fmt: skip
"""After these a member processes nothing until its next assignment; a cooperative one goes on with
what it still owns."""
ENDS: Final = frozenset({MemberHistoryKind.LEFT, MemberHistoryKind.FAILED})


@dataclass(frozen=True, slots=True)
class LifeRecord:
    """One life: when it started, when the plan ended it (None: it lives on), and its history.

    ``subscribed_ms``: when it changed its subscription.
    """

    life: Life
    started_ms: int
    ended_ms: int | None
    timeline: MemberTimeline
    subscribed_ms: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRecord:
    """What the members lived through, on their clock.

    Costs count from ``changed_ms`` to ``ended_ms``. ``committed`` as in :class:`DrillRecord`.
    ``partitions`` are all that each group's members subscribe to. ``late`` steps were carried out
    late, and of the ``requests`` that the members sent so many were late, and so many held back
    (:class:`bench.client.due_times.SendCounts`); in virtual time none are, nor are they counted.
    ``stalled_ms`` is the longest stall of the process that runs the members.
    ``marks`` say what happened, behaviours and faults, and how long after ``began_ms``.
    ``sessions``: after how long without a heartbeat a member may be expelled, by its group and its
    protocol, as in :class:`~bench.scenarios.plan.Life`.
    ``lost`` has a sentence for each process that was lost with its members' histories; so many
    members are ``missing``. ``missed`` has one for each fault that did not happen.
    ``clock_error_ms``: how far the members' clocks may differ. ``faults`` are those that happened.
    ``reads`` are committed offsets as they were read beside the members, at most
    :data:`bench.scenarios.reads.READS_MAX`, and in the end.
    """

    lives: Sequence[LifeRecord]
    changed_ms: int
    ended_ms: int
    committed: Mapping[tuple[str, str, int], int]
    partitions: Mapping[str, Sequence[TopicPartition]]
    late: int = 0
    requests: int = 0
    late_requests: int = 0
    held_requests: int = 0
    stalled_ms: int = 0
    began_ms: int = 0
    marks: Sequence[tuple[int, str]] = ()
    lost: Sequence[str] = ()
    missing: int = 0
    missed: Sequence[str] = ()
    clock_error_ms: int = 0
    faults: Sequence[DoneFault] = ()
    reads: Sequence[OffsetsRead] = ()
    sessions: Mapping[tuple[str, Protocol | None], int] = field(default_factory=dict)
    by_group: Mapping[str, Sequence[LifeRecord]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_group: dict[str, list[LifeRecord]] = defaultdict(list)
        for each in self.lives:
            by_group[each.life.group].append(each)
        object.__setattr__(self, "by_group", dict(by_group))

    def of_group(self, name: str) -> Sequence[LifeRecord]:
        """Return the lives of a group's members."""
        return self.by_group.get(name, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCosts:
    """What the changes cost one group.

    ``unavailable_member_ms``: the time, summed over the members, for which a running member had no
    assignment, as it was joining or in a rebalance. ``unowned_ms``: the longest time for which a
    partition had no owner. ``failed``: members that an error ended, such as FENCED_INSTANCE_ID.
    ``revoked``: partitions that were taken from members which lived from before the first change to
    the end. ``causes``: the rebalances by cause. ``unowned_before``: partitions that had no owner
    yet when the first change came: the group was still forming, which the costs contain, then.
    ``most``: how many partitions the member has in the end that has most.
    """

    members: int
    generation: int
    rebalances: int
    causes: Mapping[str, int]
    unavailable_member_ms: int
    moved: int
    unowned_ms: int
    failed: int
    revoked: int
    unowned_before: int = 0
    most: int = 0


def costs(record: ScenarioRecord, group: str) -> GroupCosts:
    """Return what the changes cost a group."""
    lives = record.of_group(group)
    assignments = [
        Assigned(event.time_ms, event.generation, each.life.name, event.partitions)
        for each in lives
        for event in each.timeline.events
        if event.kind is MemberHistoryKind.ASSIGNED
    ]
    owned = owners(record, lives)
    return GroupCosts(
        members=sum(each.timeline.seen_ms is not None for each in lives),
        generation=max((each.generation for each in assignments), default=0),
        rebalances=promises.rebalances(assignments, record.changed_ms),
        causes=inferred_causes(lives, record.changed_ms, record.sessions),
        unavailable_member_ms=sum(_unavailable_ms(record, each) for each in lives),
        moved=sum(_moves(each, record.changed_ms) for each in owned.values()),
        unowned_ms=max(
            (_unowned_ms(owned.get(each, []), record) for each in record.partitions[group]),
            default=0,
        ),
        failed=sum(
            event.kind is MemberHistoryKind.FAILED
            for each in lives
            for event in each.timeline.events
        ),
        revoked=sum(_revocations(record, each) for each in lives),
        unowned_before=sum(
            not _is_owned_before(owned.get(each, []), record) for each in record.partitions[group]
        ),
        most=max(
            (len(each.timeline.holds) for each in lives if each.timeline.seen_ms is not None),
            default=0,
        ),
    )


def _is_owned_before(owned: Sequence[Owned], record: ScenarioRecord) -> bool:
    """Whether a partition had its first owner before the first change, if there was time for it."""
    if record.changed_ms == record.began_ms:
        return True
    return bool(owned) and owned[0].began_ms <= record.changed_ms


def _revocations(record: ScenarioRecord, each: LifeRecord) -> int:
    """Count the partitions that were taken from a life since the first change, if it survives."""
    timeline = each.timeline
    if timeline.seen_ms is None or each.started_ms >= record.changed_ms:
        return 0
    count = 0
    owned: frozenset[TopicPartition] = frozenset()
    for event, holds in zip(
        timeline.events, holdings(timeline.events, timeline.holds), strict=True
    ):
        now = frozenset(holds)
        if event.time_ms >= record.changed_ms:
            count += len(owned - now)
        owned = now
    return count


def _unavailable_ms(record: ScenarioRecord, each: LifeRecord) -> int:
    """Return for how long a life had no assignment after the first change."""
    return sum(
        max(0, min(ended_ms, record.ended_ms) - max(began_ms, record.changed_ms))
        for began_ms, ended_ms in unavailable(record, each)
    )


def unavailable(record: ScenarioRecord, each: LifeRecord) -> Iterator[tuple[int, int]]:
    """Yield when a life ran without an assignment: as it was joining or in a rebalance."""
    since: int | None = each.started_ms
    for event in each.timeline.events:
        if event.kind is MemberHistoryKind.ASSIGNED and since is not None:
            yield since, event.time_ms
            since = None
        elif event.kind in STOPS and since is None:
            if not (each.timeline.is_cooperative and event.partitions):
                since = _stopped_ms(event)
        elif event.kind in ENDS:
            if since is not None:
                yield since, event.time_ms
            return
    if since is not None:
        yield since, record.ended_ms if each.ended_ms is None else each.ended_ms


def _stopped_ms(event: MemberHistoryEvent) -> int:
    """Return when the member gave its partitions up: before it asked to join, if it did."""
    if event.kind is MemberHistoryKind.JOINED and event.asked_ms is not None:
        return event.asked_ms
    return event.time_ms


@dataclass(frozen=True, slots=True)
class Owned:
    """A stretch of time in which a member owned a partition."""

    began_ms: int
    ended_ms: int
    name: str


def owners(
    record: ScenarioRecord, lives: Sequence[LifeRecord]
) -> dict[TopicPartition, list[Owned]]:
    """Return who owned each partition when, in order of time."""
    found: dict[TopicPartition, list[Owned]] = defaultdict(list)
    for each in lives:
        for partition, began_ms, ended_ms in _stretches(record, each):
            found[partition].append(Owned(began_ms, ended_ms, each.life.name))
    for owned in found.values():
        owned.sort(key=lambda stretch: (stretch.began_ms, stretch.ended_ms))
    return found


def _stretches(
    record: ScenarioRecord, each: LifeRecord
) -> Iterator[tuple[TopicPartition, int, int]]:
    held: dict[TopicPartition, int] = {}
    for event in each.timeline.events:
        if event.kind is MemberHistoryKind.ASSIGNED:
            now = event.partitions
        elif event.kind in STOPS:
            now = event.partitions if each.timeline.is_cooperative else ()
        elif event.kind in ENDS:
            now = ()
        else:
            continue
        for partition in [partition for partition in held if partition not in now]:
            yield partition, held.pop(partition), _stopped_ms(event)
        for partition in now:
            held.setdefault(partition, event.time_ms)
    end = record.ended_ms if each.ended_ms is None else each.ended_ms
    for partition, began_ms in held.items():
        yield partition, began_ms, max(began_ms, end)


def _moves(owned: Sequence[Owned], since_ms: int) -> int:
    """Count how often the partition came to another owner than the one before."""
    count, before = 0, None
    for stretch in owned:
        if before is not None and stretch.name != before and stretch.began_ms >= since_ms:
            count += 1
        before = stretch.name
    return count


def _unowned_ms(owned: Sequence[Owned], record: ScenarioRecord) -> int:
    """Return the longest time after the first change for which nobody owned the partition."""
    longest, free_since = 0, record.changed_ms
    for stretch in owned:
        longest = max(longest, min(stretch.began_ms, record.ended_ms) - free_since)
        free_since = max(free_since, stretch.ended_ms)
    return max(longest, record.ended_ms - free_since)


# --- what must never happen


def _owned_twice(record: ScenarioRecord) -> list[str]:
    """Find partitions with two owners in one generation, which may come again in an empty group."""
    return [
        sentence
        for lives in record.by_group.values()
        for block in _blocks(record, lives)
        for sentence in owned_twice(_as_drill(replace(record, lives=block)))
    ]


def _blocks(record: ScenarioRecord, lives: Sequence[LifeRecord]) -> Iterator[list[LifeRecord]]:
    """Yield the lives of a group in blocks: between two of them it certainly was empty.

    Then it may have become a group of another type, or a new one: generations begin again.
    """
    block: list[LifeRecord] = []
    known_until_ms = 0
    for each in sorted(lives, key=lambda one: one.started_ms):
        if block and each.started_ms > known_until_ms:
            yield block
            block = []
        block.append(each)
        session_ms = record.sessions.get((each.life.group, each.life.protocol), 0)
        ended_ms = record.ended_ms if each.ended_ms is None else each.ended_ms
        known_until_ms = max(known_until_ms, ended_ms + session_ms)
    yield block


def _lost_commits(record: ScenarioRecord) -> list[str]:
    return lost_commits(_as_drill(record))


def _backward(record: ScenarioRecord) -> list[str]:
    """Find lives that were told an older generation after a newer one."""
    found = []
    for each in record.lives:
        found += [
            f"{each.life} of {each.life.group} was in generation {before} and then in {after}"
            for before, after in promises.backward(generations_told(each.timeline.events))
        ]
    return found


def _unassigned(record: ScenarioRecord) -> list[str]:
    """Find partitions that nobody holds in the end, though their group has members.

    While the session of a member that vanished may still last, they are :func:`ended_early`.
    """
    return [
        f"{len(free)} partitions of {group} have no owner, such as {topic}-{index}"
        for group, free in _free(record)
        if not _waits(record, group)
        for topic, index in free[:1]
    ]


def ended_early(record: ScenarioRecord) -> list[str]:
    """Say which groups have partitions without an owner, and wait for the end of a session."""
    return [
        f"{len(free)} partitions of {group}, such as {topic}-{index}, have no owner in the end, and"
        " the session of a member that vanished was not over: the run ended too early."
        for group, free in _free(record)
        if _waits(record, group)
        for topic, index in free[:1]
    ]


def _free(record: ScenarioRecord) -> Iterator[tuple[str, list[TopicPartition]]]:
    """Yield the groups with the partitions that nobody holds in the end, if they have members."""
    for group, partitions in record.partitions.items():
        lives = [each for each in record.of_group(group) if each.timeline.seen_ms is not None]
        held = {partition for each in lives for partition in each.timeline.holds}
        if lives:
            yield group, [partition for partition in partitions if partition not in held]


def _waits(record: ScenarioRecord, group: str) -> bool:
    """Whether the coordinator may still wait for a member that vanished.

    It then holds partitions for it, or a rebalance of the whole group waits for it.
    """
    lives = record.of_group(group)
    seen_ms = max((each.timeline.seen_ms or 0 for each in lives), default=0)
    return any(_may_be_known(record, each, seen_ms) for each in lives)


def _may_be_known(record: ScenarioRecord, each: LifeRecord, at_ms: int) -> bool:
    """Whether a life has ended, and the coordinator may still wait for its member."""
    ended = [event for event in each.timeline.events if event.kind in ENDS]
    if ended and not (each.timeline.is_static and ended[-1].kind is MemberHistoryKind.LEFT):
        return False
    ended_ms = ended[-1].time_ms if ended else each.ended_ms
    session_ms = record.sessions.get((each.life.group, each.life.protocol), 0)
    return ended_ms is not None and ended_ms + session_ms > at_ms


def faults_in(record: ScenarioRecord, groups: Collection[str]) -> tuple[tuple[int, str], ...]:
    """Return what was done and is not about one of these groups: what the cluster suffered."""
    return tuple(
        (int(at_ms), text) for at_ms, text in record.marks if about(text, groups)[0] is None
    )


def about(text: str, groups: Collection[str]) -> tuple[str | None, str]:
    """Return the group whose name a mark begins with, if it is one of these, and the rest."""
    group, colon, rest = text.partition(": ")
    return (group, rest) if colon and group in groups else (None, text)


def _as_drill(record: ScenarioRecord) -> DrillRecord:
    return DrillRecord(
        stories=[replace(each.timeline, name=each.life.name) for each in record.lives],
        committed=record.committed,
        fault_ms=record.changed_ms,
        replicated_ms=None,
    )


CHECKS: Final[Mapping[str, Callable[[ScenarioRecord], list[str]]]] = {
    "partitions with two owners": _owned_twice,
    "lost commits": _lost_commits,
    "generations gone backward": _backward,
    "partitions without an owner in the end": _unassigned,
    "processes of members that were lost": lambda record: list(record.lost),
    "faults that did not happen": lambda record: list(record.missed),
}
"""What must never happen; each check returns sentences."""
