"""Checks of members' histories, and the definition of a rebalance: one definition for all users.

Drills check live and simulated clusters with the functions at the end, and the load's analysis in
Spark maps them over groups. The simulator checks every SyncGroup with :class:`Owners`. It checks
commits by a finer rule (``failover.simulation.checkers.values``): there commits overlap, some are
applied late, and offsets are deleted and expire. A test checks that both agree in all other cases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

P = TypeVar("P")
"""A partition, in the form that the history uses."""


class OwnedTwice(NamedTuple, Generic[P]):
    """A partition that was assigned to several members in one generation."""

    generation: int
    partition: P
    owners: tuple[str, ...]


class Owners(Generic[P]):
    """The assignments of each generation of one group.

    A partition has at most one owner in a generation. A member is identified by its lasting id: the
    instance id if it is static.
    """

    def __init__(self) -> None:
        self._owners: dict[int, dict[P, tuple[str, ...]]] = {}

    def assigned(self, generation: int, partition: P, name: str) -> tuple[str, ...]:
        """Note an assignment; return all members that the partition was assigned to, sorted."""
        of_generation = self._owners.setdefault(generation, {})
        known = of_generation.get(partition, ())
        if name not in known:
            known = of_generation[partition] = tuple(sorted((*known, name)))
        return known

    def owned_twice(self) -> Iterator[OwnedTwice[P]]:
        """Return partitions with several owners: there must be none."""
        for generation, owners in self._owners.items():
            for partition, names in owners.items():
                if len(names) > 1:
                    yield OwnedTwice(generation, partition, names)


class LostCommit(NamedTuple, Generic[P]):
    """An acknowledged offset that is lost; ``there`` is the committed offset, None: nothing."""

    partition: P
    acknowledged: int
    there: int | None


class Commits(Generic[P]):
    """The largest acknowledged offset of each partition, whose offsets only grow.

    So a smaller committed offset, or none, means that an acknowledged commit was lost.
    """

    def __init__(self) -> None:
        self._acknowledged: dict[P, int] = {}

    def acknowledged(self, partition: P, offset: int) -> None:
        """Note an acknowledged commit."""
        self._acknowledged[partition] = max(offset, self._acknowledged.get(partition, -1))

    def lost(self, committed: Mapping[P, int]) -> Iterator[LostCommit[P]]:
        """Return acknowledged offsets that are lost: there must be none."""
        for partition, offset in self._acknowledged.items():
            there = committed.get(partition)
            if there is None or there < offset:
                yield LostCommit(partition, offset, there)


@dataclass(slots=True)
class Generations:
    """One group's generations before and after a point in time, by its members' assignments.

    A rebalance after that point is a generation newer than all before it: a member that gets its
    old assignment again has not seen one.
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
        """The number of rebalances after the point in time."""
        return sum(generation > self._before for generation in self._after)


def backward(told: Iterable[tuple[int, bool]]) -> Iterator[tuple[int, int]]:
    """Return generations or epochs that a member got after a newer one: there must be none.

    ``told`` has each, and whether the coordinator had written it. A classic group's generation is
    written with its assignments, here and in Kafka: after a failover between JoinGroup and
    SyncGroup it begins again.
    """
    before = None
    for generation, is_written in told:
        if before is not None and generation < before:
            yield before, generation
        if is_written:
            before = generation


class Assigned(NamedTuple, Generic[P]):
    """An assignment that a member of a group received; ``name`` as in :class:`Owners`."""

    time_ms: int
    generation: int
    name: str
    partitions: Sequence[P]


def owned_twice(assignments: Iterable[Assigned[P]]) -> Iterator[OwnedTwice[P]]:
    """Return partitions that were assigned to several members in one generation of a group."""
    owners = Owners[P]()
    for each in assignments:
        for partition in each.partitions:
            owners.assigned(each.generation, partition, each.name)
    return owners.owned_twice()


def rebalances(assignments: Iterable[Assigned[P]], since_ms: int) -> int:
    """Count the rebalances of one group since a point in time."""
    generations = Generations(since_ms)
    for each in assignments:
        generations.assigned(each.time_ms, each.generation)
    return generations.rebalances


def lost_commits(
    acknowledged: Iterable[tuple[P, int]], committed: Mapping[P, int]
) -> Iterator[LostCommit[P]]:
    """Return acknowledged offsets that are lost; ``committed`` are the offsets at the end."""
    commits = Commits[P]()
    for partition, offset in acknowledged:
        commits.acknowledged(partition, offset)
    return commits.lost(committed)
