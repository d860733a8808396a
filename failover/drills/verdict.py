"""Compute what a drill cost from its members' timelines and the offsets committed at the end.

Pure: a live cluster's runner and the simulator pass in the same values, with times in milliseconds
of their members' clock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from failover.columns import aligned
from failover.percentiles import percentiles
from protocol.members import promises
from protocol.members.history import MemberHistoryKind
from protocol.members.promises import Assigned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from failover.drills.drill import Drill, Expect
    from protocol.members.history import MemberHistoryEvent
    from protocol.wire.embedded import TopicPartition

EXPELLED: Final = frozenset({"unknown_member_id", "fenced_instance_id", "fenced_member_epoch"})
"""Errors that tell a member with partitions that it is no longer a member."""
SENTENCES_MAX: Final = 3
"""A verdict has so many sentences of each check."""

SIGNS: Final = frozenset({MemberHistoryKind.ASSIGNED, MemberHistoryKind.HEARTBEAT})
"""Events that show that the coordinator knows the member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTimeline:
    """One life of one member; a static member that restarts has several under one ``name``.

    ``is_exclusive``: its group gives a partition to one member at a time. ``is_cooperative``:
    it keeps its partitions in a rebalance, but for those that it loses (KIP-429). ``seen_ms`` is
    when it
    was last observed and ``holds`` what it held then; a life that the drill ended has no such time.
    ``open_commits`` are those of its commits that had no answer then, or when it ended.
    """

    group_id: str
    name: str
    is_static: bool
    events: Sequence[MemberHistoryEvent]
    is_exclusive: bool = True
    is_cooperative: bool = False
    seen_ms: int | None = None
    holds: tuple[TopicPartition, ...] = ()
    open_commits: Sequence[Mapping[TopicPartition, int]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRecord:
    """The recorded results of a drill.

    ``committed`` are the offsets that the coordinators return at the end, by group, topic and
    partition; ``fault_ms`` the time of the first fault; ``replicated_ms`` how long after the last
    fault every replica was in sync, None if that never happened; ``stalled_ms`` the longest stall
    of the members' own process, None where that does not apply.
    """

    stories: Sequence[MemberTimeline]
    committed: Mapping[tuple[str, str, int], int]
    fault_ms: int
    replicated_ms: int | None
    stalled_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """One line of a verdict; without a ``limit`` it is reported but not judged."""

    name: str
    value: float | None
    limit: float | None = None

    @property
    def is_clean(self) -> bool:
        """Whether the value is within the limit, if any; a value that was never observed is not."""
        return self.limit is None or (self.value is not None and self.value <= self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The rows of one drill."""

    drill: str
    rows: tuple[VerdictRow, ...]
    complaints: tuple[str, ...] = ()
    """A few sentences that name members and partitions, for finding the cause."""

    @property
    def is_clean(self) -> bool:
        """Whether every row is clean."""
        return all(row.is_clean for row in self.rows)

    def document(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        return {
            "drill": self.drill,
            "clean": self.is_clean,
            "rows": [
                {"name": row.name, "value": row.value, "limit": row.limit, "clean": row.is_clean}
                for row in self.rows
            ],
            "complaints": list(self.complaints),
        }

    def text(self) -> str:
        """Return the verdict as a table."""
        lines = [["", "value", "at most", ""]]
        for row in self.rows:
            judged = "" if row.limit is None else "ok" if row.is_clean else "NOT CLEAN"
            lines.append([row.name, _shown(row.value), _shown(row.limit), judged])
        verdict = f"verdict: {'clean' if self.is_clean else 'NOT CLEAN'}"
        return "\n".join([aligned(lines, right={1, 2}), verdict, *self.complaints])


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a record shows; the findings of groups add up to those of all.

    ``broken`` has the sentences of each check, the first few only; ``broken_counts`` counts all.
    ``unheard_ms`` and ``silent_ms`` are of each member and of each group.
    """

    broken: Mapping[str, Sequence[str]] = field(default_factory=dict)
    broken_counts: Mapping[str, int] = field(default_factory=dict)
    rebalances: Sequence[int] = ()
    expelled: int = 0
    unheard_ms: Sequence[int] = ()
    silent_ms: Sequence[int] = ()
    stalled_ms: int | None = None
    kinds: Mapping[str, int] = field(default_factory=dict)
    members: int = 0

    def __add__(self, other: Findings) -> Findings:
        stalls = [each for each in (self.stalled_ms, other.stalled_ms) if each is not None]
        return Findings(
            broken={
                name: [*self.broken.get(name, ()), *other.broken.get(name, ())][:SENTENCES_MAX]
                for name in CHECKS
            },
            broken_counts=_sums(self.broken_counts, other.broken_counts),
            rebalances=[*self.rebalances, *other.rebalances],
            expelled=self.expelled + other.expelled,
            unheard_ms=[*self.unheard_ms, *other.unheard_ms],
            silent_ms=[*self.silent_ms, *other.silent_ms],
            stalled_ms=max(stalls, default=None),
            kinds=_sums(self.kinds, other.kinds),
            members=self.members + other.members,
        )


def judge(drill: Drill, record: DrillRecord) -> Verdict:
    """Judge a drill's results by the rules that always apply and by what it may cost."""
    return verdict_on(drill, findings(record), record.replicated_ms)


def findings(record: DrillRecord) -> Findings:
    """Return what a record shows; records of whole groups may be looked at one by one."""
    found = {name: check(record) for name, check in CHECKS.items()}
    return Findings(
        broken={name: each[:SENTENCES_MAX] for name, each in found.items()},
        broken_counts={name: len(each) for name, each in found.items()},
        rebalances=[*rebalances(record).values()],
        expelled=len(expelled(record)),
        unheard_ms=unheard_ms(record),
        silent_ms=silent_ms(record),
        stalled_ms=record.stalled_ms,
        kinds=Counter(event.kind.value for story in record.stories for event in story.events),
        members=len({(each.group_id, each.name) for each in record.stories}),
    )


def verdict_on(drill: Drill, found: Findings, replicated_ms: int | None) -> Verdict:
    """Judge what was found; ``replicated_ms`` as in :class:`DrillRecord`."""
    rows = [
        VerdictRow(name=name, value=found.broken_counts.get(name, 0), limit=0) for name in CHECKS
    ]
    return Verdict(
        drill=drill.name,
        rows=(*rows, *_costs(found, drill.expect, replicated_ms)),
        complaints=tuple(each for name in CHECKS for each in found.broken.get(name, ())),
    )


def _costs(found: Findings, expect: Expect, replicated_ms: int | None) -> Iterable[VerdictRow]:
    unheard, kinds = found.unheard_ms, found.kinds
    yield VerdictRow(name="rebalances", value=sum(found.rebalances))
    worst = max(found.rebalances, default=0)
    yield VerdictRow(name="rebalances of one group", value=worst, limit=expect.rebalances_max)
    yield VerdictRow(name="expelled members", value=found.expelled, limit=expect.expelled_max)
    yield VerdictRow(name="without a heartbeat, p50 ms", value=_percentile(unheard, 0.5))
    limit = expect.unheard_p99_ms_max
    yield VerdictRow(
        name="without a heartbeat, p99 ms", value=_percentile(unheard, 0.99), limit=limit
    )
    yield VerdictRow(name="without a heartbeat, max ms", value=_percentile(unheard, 1))
    silent = max(found.silent_ms, default=None)
    silent_max = None if silent is None else expect.silent_ms_max
    yield VerdictRow(name="a group without a commit, max ms", value=silent, limit=silent_max)
    limit = expect.replicated_ms_max
    yield VerdictRow(name="to full replication, ms", value=replicated_ms, limit=limit)
    if found.stalled_ms is not None:
        yield VerdictRow(name="the load itself stood still, max ms", value=found.stalled_ms)
    yield VerdictRow(
        name="acknowledged commits", value=kinds.get(MemberHistoryKind.COMMITTED.value, 0)
    )
    yield VerdictRow(
        name="refused or unanswered commits",
        value=kinds.get(MemberHistoryKind.COMMIT_FAILED.value, 0),
    )
    yield VerdictRow(
        name="lost connections", value=kinds.get(MemberHistoryKind.DISCONNECTED.value, 0)
    )
    yield VerdictRow(name="members", value=found.members)


def _sums(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


# --- what must never happen


def owned_twice(record: DrillRecord) -> list[str]:
    """Find partitions assigned to two members in one generation of their group."""
    return [
        f"{twice.partition[0]}-{twice.partition[1]} of {group_id} had {len(twice.owners)} owners"
        f" in generation {twice.generation}: {', '.join(twice.owners)}"
        for group_id, assignments in _assignments(record, only_exclusive=True).items()
        for twice in promises.owned_twice(assignments)
    ]


def lost_commits(record: DrillRecord) -> list[str]:
    """Find acknowledged offsets that are lost: of a partition's commits the last is the largest."""
    acknowledged = (
        ((story.group_id, topic, index), offset)
        for story in record.stories
        for event in story.events
        if event.kind is MemberHistoryKind.COMMITTED
        for topic, index, offset in event.offsets
    )
    return [
        f"{lost.partition[1]}-{lost.partition[2]} of {lost.partition[0]}: {lost.acknowledged} was"
        f" acknowledged, {lost.there} is there"
        for lost in promises.lost_commits(acknowledged, record.committed)
    ]


def generations_told(events: Iterable[MemberHistoryEvent]) -> Iterator[tuple[int, bool]]:
    """Yield each generation that a member was told, and whether it was written (``backward``)."""
    for event in events:
        if event.kind in (MemberHistoryKind.JOINED, MemberHistoryKind.ASSIGNED):
            yield event.generation, event.kind is MemberHistoryKind.ASSIGNED


def generations_backward(record: DrillRecord) -> list[str]:
    """Find members that received an older generation after a newer one."""
    found = []
    for (group_id, name), stories in _by_member(record).items():
        told = generations_told(event for story in stories for event in story.events)
        found += [
            f"{name} of {group_id} was in generation {before} and then in {after}"
            for before, after in promises.backward(told)
        ]
    return found


def changed_ids(record: DrillRecord) -> list[str]:
    """Find static members whose member id changed though they did not restart."""
    found = []
    for story in record.stories:
        ids = list(
            dict.fromkeys(e.member_id for e in story.events if e.kind is MemberHistoryKind.ASSIGNED)
        )
        if story.is_static and len(ids) > 1:
            found.append(f"{story.name} of {story.group_id} was {ids[0]} and then {ids[1]}")
    return found


def without_partitions(record: DrillRecord) -> list[str]:
    """Find members that were Stable before the first fault and hold nothing at the end."""
    found = []
    for (group_id, name), stories in _by_member(record).items():
        held = any(
            event.kind is MemberHistoryKind.ASSIGNED
            and event.partitions
            and event.time_ms < record.fault_ms
            for story in stories
            for event in story.events
        )
        if held and stories[-1].seen_ms is not None and not stories[-1].holds:
            found.append(f"{name} of {group_id} holds nothing in the end")
    return found


CHECKS: Final[Mapping[str, Callable[[DrillRecord], list[str]]]] = {
    "partitions with two owners": owned_twice,
    "lost writes": lost_commits,
    "generations gone backward": generations_backward,
    "static members with a new id": changed_ids,
    "members without their share": without_partitions,
}
"""What must never happen, whatever the faults; each check returns sentences."""


# --- what it may cost


def rebalances(record: DrillRecord) -> dict[str, int]:
    """Count for each group the generations after the fault that its members had not seen before."""
    return {
        group_id: promises.rebalances(assignments, record.fault_ms)
        for group_id, assignments in _assignments(record).items()
    }


def expelled(record: DrillRecord) -> list[str]:
    """Find members that held an assignment and were told that they are no longer members."""
    found = []
    for story in record.stories:
        is_member = False
        for event in story.events:
            is_member = is_member or event.kind is MemberHistoryKind.ASSIGNED
            is_refused = (
                event.kind is MemberHistoryKind.LOST or event.kind is MemberHistoryKind.FAILED
            )
            if is_member and is_refused and event.error in EXPELLED:
                found.append(f"{story.name} of {story.group_id}: {event.error}")
                break
    return found


def unheard_ms(record: DrillRecord) -> list[int]:
    """Return each member's longest time without a successful heartbeat that the fault may explain.

    It runs from one sign of life to the next, so it includes the members' heartbeat interval. All
    lives of a member count together, and its last observation ends the last stretch.
    """
    longest = []
    for stories in _by_member(record).values():
        signs = [e.time_ms for story in stories for e in story.events if e.kind in SIGNS]
        seen_ms = stories[-1].seen_ms
        if seen_ms is not None:
            signs.append(seen_ms)
        stretches = [b - a for a, b in pairwise(signs) if b >= record.fault_ms]
        if stretches:
            longest.append(max(stretches))
    return longest


def silent_ms(record: DrillRecord) -> list[int]:
    """Return each group's longest time without an acknowledged commit that the fault may explain.

    Its members commit every ``commit_interval_ms`` each, so a large group that is served has one
    every few milliseconds. The last observation of a member ends the last stretch.
    """
    signs: dict[str, list[int]] = defaultdict(list)
    for story in record.stories:
        times = (
            event.time_ms for event in story.events if event.kind is MemberHistoryKind.COMMITTED
        )
        signs[story.group_id] += times
    for story in record.stories:
        if story.seen_ms is not None and signs[story.group_id]:
            signs[story.group_id].append(story.seen_ms)
    return [
        max(stretches)
        for times in signs.values()
        if (stretches := [b - a for a, b in pairwise(sorted(times)) if b >= record.fault_ms])
    ]


def _assignments(
    record: DrillRecord, *, only_exclusive: bool = False
) -> dict[str, list[Assigned[TopicPartition]]]:
    """Return what members were assigned, by group."""
    found: dict[str, list[Assigned[TopicPartition]]] = defaultdict(list)
    for story in record.stories:
        if only_exclusive and not story.is_exclusive:
            continue
        found[story.group_id] += (
            Assigned(event.time_ms, event.generation, story.name, event.partitions)
            for event in story.events
            if event.kind is MemberHistoryKind.ASSIGNED
        )
    return found


def _by_member(record: DrillRecord) -> dict[tuple[str, str], list[MemberTimeline]]:
    """Return each member's lives in order."""
    members: dict[tuple[str, str], list[MemberTimeline]] = defaultdict(list)
    for story in record.stories:
        members[story.group_id, story.name].append(story)
    return members


def _percentile(values: Sequence[int], share: float) -> float | None:
    return percentiles(values, (share,))[0] if values else None


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
