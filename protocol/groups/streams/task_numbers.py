"""Tasks as plain integers: a place is a role, a subtopology's number in its group, a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.modern.form import ROLE_SHIFT, TaskRole, task_unit
from protocol.groups.topic_numbers import TOPIC_SHIFT
from protocol.wire import compact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.topic_numbers import Partition

TASK_MASK: Final = (1 << ROLE_SHIFT) - 1
SUBTOPOLOGY_MASK: Final = (1 << (ROLE_SHIFT - TOPIC_SHIFT)) - 1


class SubtopologyNumbers:
    """The subtopologies of one group by number, in the order in which records name them.

    ``ids`` are their names, ``encoded`` the same as compact strings.
    """

    __slots__ = ("_numbers", "encoded", "ids")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.ids: list[str] = []
        self.encoded: list[bytes] = []

    def number(self, subtopology_id: str) -> int:
        """Return a subtopology's number; a new one gets the next."""
        number = self._numbers.get(subtopology_id)
        if number is None:
            number = self._numbers[subtopology_id] = len(self.ids)
            self.ids.append(subtopology_id)
            self.encoded.append(compact.string(subtopology_id))
        return number

    def known(self, subtopology_id: str) -> int | None:
        """Return the number of a subtopology that a record has named; None: none has."""
        return self._numbers.get(subtopology_id)


def places(role: TaskRole, subtopology: int, indexes: Iterable[int]) -> list[Partition]:
    """Return the places of tasks in one role."""
    base = task_unit(role, subtopology) << TOPIC_SHIFT
    return [base | index for index in indexes]


def task_of(place: Partition) -> int:
    """Return the task of a place, whatever the role."""
    return place & TASK_MASK
