"""What a partition's turn tells and asks for, beside its records and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.partition_kinds import title_of
from failover.partitions.containment import about
from protocol.reasons import shown

if TYPE_CHECKING:
    from failover.effects import Effects
    from protocol.groups.effects import Task
    from protocol.groups.facts import Fact


class TurnOutput:
    """The facts, tasks and log messages of partition ``number`` since the last turn ended."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.facts: list[Fact] = []
        self.tasks: list[Task] = []
        self._notes: list[str] = []
        self._seen = 0

    def __bool__(self) -> bool:
        return bool(self.facts or self.tasks or self._notes)

    def note(self, text: str) -> None:
        """Add a log message."""
        self._notes.append(text)

    def note_restored(self, what: str, group_id: str, why: str) -> None:
        """Add a log message about a group that was built again."""
        then = f"the group was built again from the log of {title_of(self._number)}"
        self.note(f"{what} for group {shown(group_id)} failed: {why}; {then}")

    def take_unseen(self) -> list[Fact]:
        """Return the facts that have come since the last call in this turn."""
        unseen, self._seen = self.facts[self._seen :], len(self.facts)
        return unseen

    def take_back(self, group_id: str) -> None:
        """Drop what is about a group: its records could not be written."""
        self.facts = [each for each in self.facts if about(each) != group_id]
        self._seen = min(self._seen, len(self.facts))
        self.tasks = [each for each in self.tasks if about(each) != group_id]

    def drop_tasks(self) -> None:
        """Drop the tasks: the leadership that asked for them is over."""
        self.tasks.clear()

    def flush(self, effects: Effects) -> None:
        """Pass everything on."""
        effects.facts += self.facts
        self.facts.clear()
        self._seen = 0
        effects.notes += self._notes
        self._notes.clear()
        if self.tasks:
            effects.add_tasks(self._number, self.tasks)
            self.tasks.clear()
