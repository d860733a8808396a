"""Which partitions a turn must check, and the deadline of each of the others.

Code that passes a partition an event, a message or time touches it here first. So the cost of a
turn, and of finding the next deadline, depends on the number of touched partitions and not on the
number that the process holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from failover.partitions.partition import Partition

NEVER_MS: Final = 1 << 62
"""The deadline of a partition that waits for nothing."""


class Schedule:
    """The partitions of one process, by number; at first all of them are touched."""

    def __init__(self, partitions: Mapping[int, Partition]) -> None:
        self._partitions = partitions
        self._touched = set(partitions)
        self._unasked = set(partitions)
        self._deadlines = dict.fromkeys(partitions, NEVER_MS)

    def touch(self, number: int) -> None:
        """Note that a partition has, or may have, something to do."""
        self._touched.add(number)
        self._unasked.add(number)

    def touch_all(self) -> None:
        """Note that every partition may have something to do."""
        self._touched.update(self._partitions)
        self._unasked.update(self._partitions)

    def take(self) -> Sequence[Partition]:
        """Remove and return the touched partitions in order of number; the caller drains them."""
        touched = self._touched
        if not touched:
            return ()
        self._touched = set()
        self._unasked |= touched
        return [self._partitions[number] for number in sorted(touched)]

    def due(self, now: int) -> list[Partition]:
        """Return the partitions whose deadline has passed, and touch them."""
        self._ask()
        due = [number for number, at in self._deadlines.items() if at <= now]
        for number in due:
            self.touch(number)
        return [self._partitions[number] for number in due]

    def next_deadline(self) -> int | None:
        """Return the earliest deadline of all partitions, None when there is none."""
        self._ask()
        first = min(self._deadlines.values())
        return None if first == NEVER_MS else first

    def _ask(self) -> None:
        for number in self._unasked:
            deadline = self._partitions[number].next_deadline()
            self._deadlines[number] = NEVER_MS if deadline is None else deadline
        self._unasked.clear()
