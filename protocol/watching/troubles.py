"""What could not be concluded of groups: counted, and the groups are named, each once."""

from __future__ import annotations

from typing import Final, NamedTuple

from protocol.reasons import reason

NAMED_MAX: Final = 100
"""Groups that are named; of further ones it is only counted."""


class Trouble(NamedTuple):
    """A group of which something could not be concluded, and why."""

    group_id: str
    reason: str


class Troubles:
    """``count`` is how often something could not be concluded."""

    def __init__(self) -> None:
        self.count = 0
        self._named: set[str] = set()
        self._untold: list[Trouble] = []

    def note(self, group_id: str, error: Exception) -> None:
        """Note an error; the first one of a group is told."""
        self.count += 1
        if group_id not in self._named and len(self._named) < NAMED_MAX:
            self._named.add(group_id)
            self._untold.append(Trouble(group_id, reason(error)))

    def take(self) -> list[Trouble]:
        """Take out those that came since the last call."""
        taken, self._untold = self._untold, []
        return taken
