"""When a plan changes each group: what a behaviour does again and again, and when it is over. Pure.

Each step of a member that a behaviour leads to is a change, be it the first or the last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

CHANGES_MAX: Final = 10_000
"""So many changes of all groups together are kept, or two of each group if that is more."""


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One change of a group, ``due_ms`` after the begin; ``word``: what its behaviour does."""

    due_ms: int
    group: str
    word: str


@dataclass(slots=True)
class PlannedChanges:
    """The changes of so many ``groups``, noted in the order of time, and bounded in number.

    Of the changes of a behaviour within one second the first and the last are kept; of those of a
    group that has too many, the first ones and the last.
    """

    groups: int
    _by_group: dict[str, list[PlannedChange]] = field(default_factory=dict)

    def note(self, due_ms: int, group: str, word: str) -> None:
        """Note a change."""
        noted = self._by_group.setdefault(group, [])
        change = PlannedChange(due_ms, group, word)
        second = [each for each in noted[-2:] if _second(each) == _second(change)]
        if len(second) == 2 or len(noted) == max(2, CHANGES_MAX // self.groups):
            noted[-1] = change
        elif change not in second:
            noted.append(change)

    def all(self) -> tuple[PlannedChange, ...]:
        """Return the changes of all groups in order."""
        every = (each for noted in self._by_group.values() for each in noted)
        return tuple(sorted(every, key=lambda each: each.due_ms))


def _second(change: PlannedChange) -> tuple[int, str]:
    return change.due_ms // 1000, change.word
