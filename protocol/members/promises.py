"""What the histories of members must never show, and what a rebalance is: one definition for all.

Drills judge live and simulated clusters by the functions at the end, and the load's analysis in
Spark maps them over groups. The simulator checks every SyncGroup by :class:`Owners`. It checks
commits by a finer rule (``failover.simulation.checkers.values``): there commits overlap, some are
applied late, and offsets are deleted and expire. A test holds that both agree on all others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

P = TypeVar("P")
"""A partition, in the form that the history names it."""


class OwnedTwice(NamedTuple, Generic[P]):
    """A partition that several members were assigned in one generation."""

    generation: int
    partition: P
    owners: tuple[str, ...]


class Owners(Generic[P]):
    """Who was assigned what in each generation of one group.

    A partition has at most one owner in a generation. A member is known by what it keeps for life:
    its instance id if it is static.
    """

    def __init__(self) -> None:
        self._owners: dict[int, dict[P, tuple[str, ...]]] = {}

    def assigned(self, generation: int, partition: P, name: str) -> tuple[str, ...]:
        """Note an assignment; return all that the partition was assigned to, sorted."""
        of_generation = self._owners.setdefault(generation, {})
        known = of_generation.get(partition, ())
        if name not in known:
            known = of_generation[partition] = tuple(sorted((*known, name)))
        return known

    def owned_twice(self) -> Iterator[OwnedTwice[P]]:
        """Find partitions with several owners: there must be none."""
        for generation, owners in self._owners.items():
            for partition, names in owners.items():
                if len(names) > 1:
                    yield OwnedTwice(generation, partition, names)


class LostCommit(NamedTuple, Generic[P]):
    """An acknowledged offset that is gone; ``there`` is what is committed, None: nothing."""

    partition: P
    acknowledged: int
    there: int | None


class Commits(Generic[P]):
    """The largest acknowledged offset of each partition: its offsets only grow.

    So a committed offset below that, or none, is an acknowledged commit lost.
    """

    def __init__(self) -> None:
        self._acknowledged: dict[P, int] = {}

    def acknowledged(self, partition: P, offset: int) -> None:
        """Note an acknowledged commit."""
        self._acknowledged[partition] = max(offset, self._acknowledged.get(partition, -1))

    def lost(self, committed: Mapping[P, int]) -> Iterator[LostCommit[P]]:
        """Find acknowledged offsets that are gone: there must be none."""
        for partition, offset in self._acknowledged.items():
            there = committed.get(partition)
            if there is None or there < offset:
                yield LostCommit(partition, offset, there)


@dataclass(slots=True)
class Generations:
    """One group's generations before and after a moment, as its members were assigned in them.

    A rebalance after that moment is a generation that is newer than all before it: a member that
    is given its old assignment again has not seen one.
    """

    since_ms: int
    _before: int = -1
    _after: set[int] = field(default_factory=set)

    def assigned(self, time_ms: int, generation: int) -> None:
        """Note an assignment."""
        if time_ms < self.since_ms:
            self._before = max(self._before, generation)
        else:
            self._after.add(generation)

    @property
    def rebalances(self) -> int:
        """How many there were after the moment."""
        return sum(generation > self._before for generation in self._after)


def backward(told: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Find generations or epochs that a member was told after a newer one: there must be none."""
    before = None
    for generation in told:
        if before is not None and generation < before:
            yield before, generation
        before = generation


class Assigned(NamedTuple, Generic[P]):
    """An assignment that a member of a group was told; ``name`` as in :class:`Owners`."""

    time_ms: int
    generation: int
    name: str
    partitions: Sequence[P]


def owned_twice(assignments: Iterable[Assigned[P]]) -> Iterator[OwnedTwice[P]]:
    """Find partitions that several members of one group were assigned in one generation."""
    owners = Owners[P]()
    for each in assignments:
        for partition in each.partitions:
            owners.assigned(each.generation, partition, each.name)
    return owners.owned_twice()


def rebalances(assignments: Iterable[Assigned[P]], since_ms: int) -> int:
    """Count the rebalances of one group since a moment."""
    generations = Generations(since_ms)
    for each in assignments:
        generations.assigned(each.time_ms, each.generation)
    return generations.rebalances


def lost_commits(
    acknowledged: Iterable[tuple[P, int]], committed: Mapping[P, int]
) -> Iterator[LostCommit[P]]:
    """Find acknowledged offsets that are gone; ``committed`` is what is there in the end."""
    commits = Commits[P]()
    for partition, offset in acknowledged:
        commits.acknowledged(partition, offset)
    return commits.lost(committed)
