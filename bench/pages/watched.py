"""Draw groups that were only watched, from what their coordinators said of them again and again.

What a sight shows holds from its time to that of the next one that shows something else. While
nobody answers, a group is as it was described last.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Final, TypeVar

from bench.pages.document import CostRow, Figure, GroupStory, Trends
from bench.pages.groups import GROUPS_MAX, STORIES_EACH_MAX, members_words
from bench.pages.ownership import OwnershipTimes
from bench.pages.sighted_rebalances import sighted_rebalances
from bench.pages.steps import counted, edges, mean_count, rounded, step_ms
from bench.pages.stories import banded, bounded_rebalances, room_of
from bench.pages.tables import duration
from bench.pages.trends import STEPS_MAX
from bench.scenarios.record import Owned
from bench.scenarios.values import Protocol
from failover.drills.observation import after_fault, last_answered, longest, rebalance_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from failover.drills.observation import GroupSight, Observation

K = TypeVar("K")

NO_ANSWER: Final = "no answer to DESCRIBE"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedGroups:
    """What is drawn of groups that were watched, and when the first and last sight of them were.

    ``described`` says in a few words how often there was one.
    """

    began_ms: int
    ended_ms: int
    described: str
    costs: Sequence[CostRow]
    stories: Sequence[GroupStory]
    notes: Sequence[str]


def watched_groups(seen: Observation) -> WatchedGroups:
    """Return what the sights of all groups tell."""
    times = [sight.time_ms for sights in seen.sights.values() for sight in sights]
    began_ms, ended_ms = min(times, default=seen.fault_ms), max(times, default=seen.fault_ms)
    groups = [
        _WatchedGroup(name, sights, seen, (began_ms, ended_ms))
        for name, sights in seen.sights.items()
        if any(sight.state is not None for sight in sights)
    ]
    by_cost = sorted(groups, key=_WatchedGroup.rank, reverse=True)
    drawn = {each.name for each in by_cost[:STORIES_EACH_MAX]}
    notes = [*_precision(seen)]
    if len(groups) > len(drawn):
        notes.append(f"{len(drawn)} of {len(groups)} groups are drawn: those that cost most.")
    stories = [each.story(len(drawn), notes) for each in groups if each.name in drawn]
    rows = [each.cost_row() for each in by_cost[:GROUPS_MAX]]
    if len(groups) > len(rows):
        notes.append(f"The costs of {len(groups) - len(rows)} more groups are left out.")
    return WatchedGroups(
        began_ms=began_ms,
        ended_ms=ended_ms,
        described=f"groups described about every {duration(median(_gaps(seen) or [0]))}",
        costs=rows,
        stories=stories,
        notes=notes,
    )


class _WatchedGroup:
    """One group by its sights; at least one of them was answered."""

    def __init__(
        self, name: str, sights: Sequence[GroupSight], seen: Observation, run: tuple[int, int]
    ) -> None:
        self.name = name
        self._began_ms, self._ended_ms = run
        self._fault_ms = seen.fault_ms or self._began_ms
        self._sights = sights
        self._answered = [each for each in sights if each.state is not None]
        self._after = after_fault(seen)[name]
        self._waited = [*_stretches(self._answered, self._ended_ms, _waiting)]
        self.spans = sighted_rebalances(self._answered, self._began_ms, self._fault_ms)
        self.times = self._ownership()

    def rank(self) -> tuple[int, int, int]:
        """Return what orders groups: rebalances, time without an assignment, silence."""
        return (rebalance_count(self._after), self._unavailable_ms(), self._silent_ms())

    def cost_row(self) -> CostRow:
        """Return what the group paid from the first fault on."""
        last = last_answered(self._sights)
        since_ms = self._fault_ms - self._began_ms
        unowned = (end - max(begin, since_ms) for begin, end in self.times.unowned())
        gone = [name for name in self._after[0].held if name not in last.held]
        figures = {
            "members": len(last.held),
            "rebalances": rebalance_count(self._after),
            "unavailable member-s": self._unavailable_ms() / 1000,
            "longest unowned s": max([0, *unowned]) / 1000,
            "partitions moved": sum(each.moved for each in self.spans if not each.is_initial),
            "members gone": len(gone),
            "longest without an answer s": self._silent_ms() / 1000,
            "longest not Stable s": longest(self._after, lambda each: each.is_calm) / 1000,
        }
        return CostRow(
            group=self.name,
            kind=f"{members_words(len(last.held))}, {last.group_type}",
            figures=tuple(Figure(name=name, value=value) for name, value in figures.items()),
        )

    def story(self, pictures: int, notes: list[str]) -> GroupStory:
        """Return what its pictures are drawn from, one of so many."""
        room = room_of(pictures)
        picture = self.times.picture(
            is_exclusive=all(each.is_exclusive for each in self._answered),
            stretches_max=room.stretches,
        )
        if picture.form == "bands":
            notes.append(banded(self.name, picture, self.times, room.stretches))
        return GroupStory(
            group=self.name,
            rebalances=bounded_rebalances(self.name, self.spans, room, notes),
            trends=self._trends(),
            ownership=picture,
        )

    def _ownership(self) -> OwnershipTimes:
        owned: dict[tuple[str, int], list[Owned]] = defaultdict(list)
        for (partition, name), began_ms, ended_ms in _stretches(
            self._answered, self._ended_ms, _held
        ):
            owned[partition].append(Owned(began_ms, ended_ms, name))
        for each in owned.values():
            each.sort(key=lambda stretch: (stretch.began_ms, stretch.ended_ms, stretch.name))
        return OwnershipTimes(sorted(owned), owned, self._began_ms, self._ended_ms - self._began_ms)

    def _trends(self) -> Trends:
        step = step_ms(self.times.duration_ms, STEPS_MAX)
        at = edges(self.times.duration_ms, step)
        there = _stretches(self._answered, self._ended_ms, lambda sight: sight.held)
        silent = [each.time_ms - self._began_ms for each in self._sights if each.state is None]
        return Trends(
            step_ms=step,
            running=rounded(mean_count(_spans(there), at + self._began_ms)),
            unavailable=rounded(mean_count(_spans(self._waited), at + self._began_ms)),
            unowned=rounded(mean_count(self.times.unowned(), at)),
            errors={NO_ANSWER: counted(silent, at).tolist()} if silent else {},
            durations_ms={},
        )

    def _unavailable_ms(self) -> int:
        return sum(max(0, end - max(begin, self._fault_ms)) for _, begin, end in self._waited)

    def _silent_ms(self) -> int:
        return longest(self._after, lambda each: each.state is not None)


def _held(sight: GroupSight) -> list[tuple[tuple[str, int], str]]:
    return [
        (partition, name)
        for name, partitions in sight.held.items()
        for partition in sorted(partitions)
    ]


def _waiting(sight: GroupSight) -> list[str]:
    """Return the members that hold nothing while their group is not Stable."""
    return [] if sight.is_calm else [name for name, held in sight.held.items() if not held]


def _stretches(
    sights: Sequence[GroupSight], ended_ms: int, of: Callable[[GroupSight], Iterable[K]]
) -> Iterator[tuple[K, int, int]]:
    """Yield what each sight shows, and from when to when successive sights do."""
    since: dict[K, int] = {}
    before: GroupSight | None = None
    for sight in sights:
        if before is not None and (before.state, before.held) == (sight.state, sight.held):
            continue
        before = sight
        now = dict.fromkeys(of(sight))
        for each in [each for each in since if each not in now]:
            yield each, since.pop(each), sight.time_ms
        for each in now:
            since.setdefault(each, sight.time_ms)
    for each, began_ms in since.items():
        yield each, began_ms, ended_ms


def _spans(stretches: Iterable[tuple[K, int, int]]) -> Iterator[tuple[int, int]]:
    return ((began_ms, ended_ms) for _, began_ms, ended_ms in stretches)


def _gaps(seen: Observation) -> list[int]:
    """Return the times from one sight of a group to the next."""
    return [
        after.time_ms - before.time_ms
        for sights in seen.sights.values()
        for before, after in pairwise(sights)
    ]


def _precision(seen: Observation) -> Iterator[str]:
    """Say what the pictures are made of, and how exact they are."""
    gaps = _gaps(seen)
    if not gaps:
        return
    yield (
        "The members ran elsewhere. Their groups are drawn from answers to DESCRIBE, one of each"
        f" group about every {duration(median(gaps))}, and at most {duration(max(gaps))} apart:"
        " what was over sooner is not seen, and several rebalances between two answers are one. A"
        " rebalance is drawn from the last answer before it to the first one that shows it over,"
        " so it was shorter. Which partitions there are is known from their owners only."
    )
    answers = [sight for sights in seen.sights.values() for sight in sights]
    silent = sum(sight.state is None for sight in answers)
    if silent:
        yield (
            f"{silent} of {len(answers)} times nobody described a group: until the next answer it"
            " is drawn as it was described last."
        )
    if any(sight.group_type == Protocol.CLASSIC for sight in answers):
        yield (
            "Answers do not have the generation of a classic group: its rebalances are numbered."
            " While it rebalances it may be described with the assignments that it had before."
        )
