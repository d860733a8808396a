"""Who has a task, and who is to get it: kept by member, so that a change costs one member's tasks.

A plan for all tasks of a large group would take far longer than a turn of the coordinator may. So a
leader looks at the tasks of a member again only if the member's target or its assignment is another
one, and at no more members at a time than it can afford.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from protocol.groups.modern.form import ROLE_SHIFT, TaskRole
from protocol.groups.streams.task_numbers import TASK_MASK, task_of
from protocol.groups.topic_numbers import TOPIC_SHIFT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Set

    from protocol.groups.topic_numbers import Partition

STANDBY: Final = TaskRole.STANDBY << ROLE_SHIFT
WARMUP: Final = TaskRole.WARMUP << ROLE_SHIFT

NO_LAGS: Final[Mapping[Partition, int | None]] = {}


@dataclass(slots=True, eq=False)
class PlannedMember:
    """A member: its process, its target, what it is assigned, and what it reports.

    ``revoking``: what it still has to give up. ``lags`` are those of the tasks that it reports
    offsets of; None: it has not said where the task's changelogs end. A member that runs a task
    reports it only while it restores the state. ``reports``: its version can report offsets.

    ``source``: what the first fields were made from. ``keeps_too_much`` and ``lacks_some`` compare
    what it is assigned with its target.
    """

    member_id: str
    process_id: str
    target: Set[Partition]
    assigned: Mapping[Partition, int]
    revoking: Iterable[Partition] = ()
    lags: Mapping[Partition, int | None] = field(default_factory=lambda: NO_LAGS)
    reports: bool = True
    source: tuple[object, object, object] | None = None
    keeps_too_much: bool = field(init=False)
    lacks_some: bool = field(init=False)
    arriving: list[Partition] = field(init=False)

    def __post_init__(self) -> None:
        lacking = self.target - self.assigned.keys()
        self.lacks_some = bool(lacking)
        self.keeps_too_much = len(self.assigned) > len(self.target) - len(lacking)
        self.arriving = [place for place in lacking if not place >> ROLE_SHIFT]


Holders = dict["Partition", set[str]]


class TaskIndex:
    """The members of a group by the tasks that they have, or are to get.

    ``arriving``: the member that is to get an active task with state that it does not have yet.
    ``holders``: the member that has an active task. ``copies``: the members with a standby or
    warm-up task, by its place. ``standbys``: those whose target has a standby of a task.
    ``revoking``: those that still have to give a task up. ``processes``: the members by process.
    """

    __slots__ = (
        "arriving",
        "copies",
        "holders",
        "members",
        "processes",
        "revoking",
        "standbys",
    )

    def __init__(self) -> None:
        self.members: dict[str, PlannedMember] = {}
        self.arriving: dict[Partition, str] = {}
        self.holders: dict[Partition, str] = {}
        self.copies: Holders = {}
        self.standbys: Holders = {}
        self.revoking: Holders = {}
        self.processes: dict[str, set[str]] = {}

    def put(self, member: PlannedMember, stateful: Set[int]) -> None:
        """Look at a member's tasks; ``stateful``: the numbers of subtopologies with changelogs."""
        self.drop(member.member_id)
        member_id = member.member_id
        self.members[member_id] = member
        self.processes.setdefault(member.process_id, set()).add(member_id)
        member.arriving = [task for task in member.arriving if task >> TOPIC_SHIFT in stateful]
        for task in member.arriving:
            self.arriving[task] = member_id
        for place in member.assigned:
            if place >> ROLE_SHIFT:
                self.copies.setdefault(place, set()).add(member_id)
            else:
                self.holders[place] = member_id
        for place in member.target:
            if place >> ROLE_SHIFT == TaskRole.STANDBY:
                self.standbys.setdefault(place & TASK_MASK, set()).add(member_id)
        for place in member.revoking:
            self.revoking.setdefault(task_of(place), set()).add(member_id)

    def drop(self, member_id: str) -> None:
        """Forget a member."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        _remove(self.processes, member.process_id, member_id)
        for task in member.arriving:
            if self.arriving.get(task) == member_id:
                del self.arriving[task]
        for place in member.assigned:
            if place >> ROLE_SHIFT:
                _remove(self.copies, place, member_id)
            elif self.holders.get(place) == member_id:
                del self.holders[place]
        for place in member.target:
            if place >> ROLE_SHIFT == TaskRole.STANDBY:
                _remove(self.standbys, place & TASK_MASK, member_id)
        for place in member.revoking:
            _remove(self.revoking, task_of(place), member_id)

    def holder(self, task: Partition) -> PlannedMember | None:
        """Return the member that runs a task."""
        return self.members.get(self.holders.get(task, ""))

    def copies_of(self, task: Partition) -> Iterator[tuple[Partition, PlannedMember]]:
        """Yield the places of a task's standby and warm-up tasks, and who has them."""
        found = [
            (member_id, place)
            for place in (STANDBY | task, WARMUP | task)
            for member_id in self.copies.get(place, ())
        ]
        for member_id, place in sorted(found):
            yield place, self.members[member_id]

    def standbys_of(self, task: Partition) -> list[PlannedMember]:
        """Return the members whose target has a standby of a task."""
        return [self.members[each] for each in sorted(self.standbys.get(task, ()))]

    def is_on_disk(self, process_id: str, task: Partition) -> bool:
        """Whether a process says that it has some state of a task, or is giving the task up."""
        leaving = self.revoking.get(task, ())
        return any(
            each in leaving or task in self.members[each].lags
            for each in self.processes.get(process_id, ())
        )

    def load(self, process_id: str) -> tuple[int, int]:
        """Return the number of tasks of a process, and that of its members."""
        members = self.processes.get(process_id, ())
        return sum(len(self.members[each].assigned) for each in members), len(members)

    def is_sound(self) -> bool:
        """Whether another index of the same members is the same."""
        other = TaskIndex()
        for member in self.members.values():
            other.put(member, {task >> TOPIC_SHIFT for task in member.arriving})
        return all(getattr(self, name) == getattr(other, name) for name in TaskIndex.__slots__)


def _remove(index: dict[str, set[str]] | Holders, key: str | Partition, member_id: str) -> None:
    held: set[str] = index[key]  # type: ignore[index]
    held.discard(member_id)
    if not held:
        del index[key]  # type: ignore[arg-type]
