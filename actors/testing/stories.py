"""What happened to each group, in sentences, for a test that asks or fails."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import TYPE_CHECKING, Final

from actors.telemetry.log_messages import log_message
from protocol.groups.classic.partitions_moved import partitions_moved
from protocol.groups.facts import RebalanceEnded, ResultReplicated

if TYPE_CHECKING:
    from protocol.groups.facts import Fact

LINES_MAX: Final = 20_000
"""The lines of all groups that are kept; the oldest go first."""


class Stories:
    """The facts of all groups of a cluster, as lines; a coordinator's ``Observer``.

    A mark is a moment: :meth:`since` returns what came after it.
    """

    def __init__(self) -> None:
        self.mark = 0
        self._lines: deque[tuple[int, str, str]] = deque(maxlen=LINES_MAX)

    def observe(self, fact: Fact) -> None:
        """Keep a fact as a line."""
        if isinstance(fact, ResultReplicated):
            return
        moved = None
        if isinstance(fact, RebalanceEnded) and fact.protocol_type == "consumer":
            moved = partitions_moved(fact.assignments_before, fact.assignments_after)
        self._keep(fact.group_id, log_message(fact, moved))

    def run_context(self, _group_id: str, _run: int) -> str:
        """Return no context: there are no traces."""
        return ""

    def note(self, group_id: str, sentence: str) -> None:
        """Keep what the test itself has done to a group as a line."""
        self._keep(group_id, f"group {group_id}: {sentence}")

    def _keep(self, group_id: str, sentence: str) -> None:
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        self.mark += 1
        self._lines.append((self.mark, group_id, f"{now[11:23]} {sentence}"))

    def close(self, timeout_s: float = 0.0) -> None:
        """Do nothing: nothing waits here."""
        del timeout_s

    def of(self, group_id: str) -> list[str]:
        """Return the lines of one group, oldest first."""
        return [line for _, group, line in self._lines if group == group_id]

    def since(self, mark: int) -> dict[str, list[str]]:
        """Return the lines after a mark by group id, oldest first."""
        found: dict[str, list[str]] = {}
        for number, group_id, line in self._lines:
            if number > mark:
                found.setdefault(group_id, []).append(line)
        return found
