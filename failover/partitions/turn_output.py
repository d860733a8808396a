"""What a partition's turn tells and asks for, beside its records and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.partitions.containment import about
from protocol.reasons import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from failover.effects import Effects
    from protocol.groups.effects import Task
    from protocol.groups.facts import Fact


class TurnOutput:
    """The facts, tasks and log messages of partition ``number`` since the last turn ended."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._facts: list[Fact] = []
        self._tasks: list[Task] = []
        self._notes: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._facts or self._tasks or self._notes)

    def add(self, facts: Iterable[Fact], tasks: Iterable[Task]) -> None:
        """Add what an event led to."""
        self._facts += facts
        self._tasks += tasks

    def note(self, text: str) -> None:
        """Add a log message."""
        self._notes.append(text)

    def note_restored(self, what: str, group_id: str, why: str) -> None:
        """Add a log message about a group that was built again."""
        then = f"the group was built again from the log of partition {self._number}"
        self.note(f"{what} for group {shown(group_id)} failed: {why}; {then}")

    def take_back(self, group_id: str) -> None:
        """Drop what is about a group: its records could not be written."""
        self._facts = [each for each in self._facts if about(each) != group_id]
        self._tasks = [each for each in self._tasks if about(each) != group_id]

    def drop_tasks(self) -> None:
        """Drop the tasks: the leadership that asked for them is over."""
        self._tasks.clear()

    def flush(self, effects: Effects) -> None:
        """Pass everything on."""
        effects.facts += self._facts
        self._facts.clear()
        effects.notes += self._notes
        self._notes.clear()
        if self._tasks:
            effects.add_tasks(self._number, self._tasks)
            self._tasks.clear()
