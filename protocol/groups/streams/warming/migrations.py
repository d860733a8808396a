"""Which active tasks move at once, and which first warm up at their new owner (KIP-1071).

The target assignment says where tasks end up. A *plan* is one step on the way to it: the target
with patches. A stateful task stays where its state is caught up while its new owner has none; that
one gets a warm-up task instead, as far as the number of warm-up replicas allows.

================================== ===============================================================
the state of the task              what the plan does
================================== ===============================================================
on the new owner's process         grants the task: the holder gives it up, the new owner gets it
with its holder, or in a copy      keeps it there; the new owner's standby is used, or it warms up
nowhere, or only on its disk       grants the task: nobody could run it sooner
================================== ===============================================================

Functions of hard state, of reported offsets and of settings; the same input gives the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from heapq import nsmallest
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.groups.streams.warming.task_index import STANDBY, WARMUP, PlannedMember, TaskIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

    from protocol.groups.topic_numbers import Partition

TASKS_MAX: Final = 500
"""The most tasks that a plan may hold back: of more that are to move, the others do so at once."""


@dataclass(slots=True, eq=False)
class Patch:
    """The difference between a member's target and what it gets in this step."""

    added: set[Partition] = field(default_factory=set)
    removed: set[Partition] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Plan:
    """One step towards the target of an assignment epoch.

    ``awaited`` are the tasks whose catching up lets a next step begin, by the member that has the
    copy. ``staged`` are the tasks that stay with another member than the target's.
    """

    epoch: int
    patches: dict[str, Patch] = field(default_factory=dict)
    awaited: dict[str, set[Partition]] = field(default_factory=dict)
    staged: set[Partition] = field(default_factory=set)

    def applied(self, member_id: str, target: Set[Partition]) -> Set[Partition]:
        """Return what a member with this target gets in this step."""
        patch = self.patches.get(member_id)
        return target if patch is None else (target - patch.removed) | patch.added

    def differs(self, other: Plan, members: Mapping[str, PlannedMember]) -> bool:
        """Whether some member gets something else than by another plan for the same target."""
        for member_id in self.patches.keys() | other.patches.keys():
            known = members.get(member_id)
            if known is None:
                return True
            if self.applied(member_id, known.target) != other.applied(member_id, known.target):
                return True
        return False

    def rename(self, old_id: str, new_id: str) -> None:
        """Let a static member take its predecessor's place."""
        if old_id in self.patches:
            self.patches[new_id] = self.patches.pop(old_id)
        if old_id in self.awaited:
            self.awaited[new_id] = self.awaited.pop(old_id)


class _Warming(IntEnum):
    """How a task is warmed up; the lowest gets a replica first."""

    KEEP = 0
    PLANT = 1
    MOVE_STANDBY = 2


class _Copy(NamedTuple):
    """A standby or warm-up task: its place and its holder; ``lag`` is None if not reported."""

    place: Partition
    holder: PlannedMember
    lag: int | None


class _Migration(NamedTuple):
    """A task that stays with ``keeper`` in this step; ``copy`` is on the new owner's process."""

    task: Partition
    keeper: PlannedMember
    owner: PlannedMember
    copy: _Copy | None


def plan(epoch: int, index: TaskIndex, replicas: int, acceptable_lag: int) -> Plan:
    """Plan a step.

    At most ``replicas`` warm-up tasks are in it. With 0 every task moves at once.
    """
    made = Plan(epoch)
    if replicas and index.arriving:
        _Planner(made, index, replicas, acceptable_lag).run()
    return made


class _Planner:
    def __init__(self, made: Plan, index: TaskIndex, replicas: int, acceptable_lag: int) -> None:
        self.made, self.index = made, index
        self.replicas, self.acceptable_lag = replicas, acceptable_lag
        self.loads: dict[str, tuple[int, int]] = {}

    def run(self) -> None:
        """Fill in the plan."""
        index, staged = self.index, []
        for task in nsmallest(TASKS_MAX, index.arriving):
            owner = index.members[index.arriving[task]]
            keeper = self._keeper(task, owner)
            if keeper is not None:
                copy = next(self._copies_on(task, owner.process_id), None)
                staged.append(_Migration(task, keeper, owner, copy))
        borrowed = self._fund(staged)
        for each in staged:
            self.made.staged.add(each.task)
            self._patch(each.keeper).added.add(each.task)
            self._patch(each.owner).removed.add(each.task)
            self._hold_standbys(each, is_borrowed=each.task in borrowed)

    def _keeper(self, task: Partition, owner: PlannedMember) -> PlannedMember | None:
        """Return the member that runs a task in this step instead of its owner; None: no other."""
        holder = self.index.holder(task)
        if not owner.reports:
            return None  # it could never say that it has caught up
        if holder is not None and holder.process_id == owner.process_id:
            return None
        own = list(self._copies_on(task, owner.process_id))
        if any(self._is_caught_up(copy.lag) for copy in own):
            return None
        if holder is None and not own and self.index.is_on_disk(owner.process_id, task):
            return None
        if holder is not None:
            is_restoring = task in holder.lags and not self._is_caught_up(holder.lags[task])
            if not is_restoring:
                return holder
        return self._best_copy(task)

    def _best_copy(self, task: Partition) -> PlannedMember | None:
        """Return the member with the caught-up copy that is best promoted."""
        named = self.index.standbys.get(task, ())
        ready = [each.holder for each in self._copies(task) if self._is_caught_up(each.lag)]
        return min(
            ready,
            key=lambda each: (each.member_id in named, self._load(each), each.member_id),
            default=None,
        )

    def _fund(self, staged: list[_Migration]) -> set[Partition]:
        """Give warm-up tasks to new owners; return the tasks that a standby warms up instead."""
        borrowed = set()
        candidates: list[tuple[_Warming, _Migration]] = []
        for each in staged:
            copy = each.copy
            if copy is None:
                candidates.append((_Warming.PLANT, each))
            elif copy.place & WARMUP:
                candidates.append((_Warming.KEEP, each))
            elif copy.holder.member_id == each.owner.member_id:
                borrowed.add(each.task)
            else:
                candidates.append((_Warming.MOVE_STANDBY, each))
        restoring = self._restoring(staged)
        for _ in range(min(self.replicas, len(candidates))):
            best = min(candidates, key=lambda each: self._priority(each[0], each[1], restoring))
            candidates.remove(best)
            warming, each = best
            self._patch(each.owner).added.add(WARMUP | each.task)
            self._await(each.owner.member_id, each.task)
            if warming is not _Warming.KEEP:
                tasks, members = self._load_of(each.owner.process_id)
                self.loads[each.owner.process_id] = tasks + 1, members
        borrowed.update(
            each.task for warming, each in candidates if warming is _Warming.MOVE_STANDBY
        )
        for each in staged:
            if each.task in borrowed and each.copy is not None:
                self._patch(each.copy.holder).added.add(each.copy.place)
                self._await(each.copy.holder.member_id, each.task)
        return borrowed

    def _priority(
        self, warming: _Warming, each: _Migration, restoring: Set[str]
    ) -> tuple[int, int, float, float, Partition]:
        """Order new owners: those that already warm up, then those with the most room.

        A member that restores an active task makes no progress with others meanwhile.
        """
        tier = 0 if warming is _Warming.KEEP else 1
        has_begun = each.copy is not None and each.copy.lag is not None
        if each.owner.member_id in restoring and not (warming is _Warming.KEEP and has_begun):
            tier += 2
        return tier, warming, self._load(each.owner), -self._load(each.keeper), each.task

    def _restoring(self, staged: list[_Migration]) -> set[str]:
        """Return the new owners that restore a task of theirs, or will in this step."""
        stays = {each.task for each in staged}
        owners = {each.owner.member_id: each.owner for each in staged}
        return {
            member_id
            for member_id, owner in owners.items()
            if any(self._will_restore(task, owner) for task in owner.arriving if task not in stays)
            or any(
                task in owner.assigned and not self._is_caught_up(lag)
                for task, lag in owner.lags.items()
            )
        }

    def _will_restore(self, task: Partition, owner: PlannedMember) -> bool:
        """Whether a task that moves now has no state on the process of its new owner."""
        holder = self.index.holder(task)
        if holder is not None and holder.process_id == owner.process_id:
            return False
        return not any(self._copies_on(task, owner.process_id))

    def _hold_standbys(self, each: _Migration, *, is_borrowed: bool) -> None:
        """Withhold a standby from the keeper's process, and one for a standby that is borrowed."""
        place, is_undelivered = STANDBY | each.task, False
        elsewhere = []
        for member in self.index.standbys_of(each.task):
            if member.process_id == each.keeper.process_id:
                self._patch(member).removed.add(place)
                is_undelivered = True
            elif not any(self._copies_on(each.task, member.process_id)):
                elsewhere.append(member)
        if is_borrowed and not is_undelivered and elsewhere:
            self._patch(elsewhere[0]).removed.add(place)

    def _copies(self, task: Partition) -> Iterator[_Copy]:
        for place, holder in self.index.copies_of(task):
            yield _Copy(place, holder, holder.lags.get(task))

    def _copies_on(self, task: Partition, process_id: str) -> Iterator[_Copy]:
        return (copy for copy in self._copies(task) if copy.holder.process_id == process_id)

    def _is_caught_up(self, lag: int | None) -> bool:
        return lag is not None and lag <= self.acceptable_lag

    def _load(self, member: PlannedMember) -> float:
        tasks, members = self._load_of(member.process_id)
        return tasks / members

    def _load_of(self, process_id: str) -> tuple[int, int]:
        """Return the tasks of a process in this plan, and its members."""
        if process_id not in self.loads:
            self.loads[process_id] = self.index.load(process_id)
        return self.loads[process_id]

    def _patch(self, member: PlannedMember) -> Patch:
        return self.made.patches.setdefault(member.member_id, Patch())

    def _await(self, member_id: str, task: Partition) -> None:
        self.made.awaited.setdefault(member_id, set()).add(task)
