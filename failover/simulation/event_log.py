"""Event log for people: lines tagged with their subject, kept only when they will be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Violation(Exception):  # noqa: N818 - what was found is a violation, not an error of ours
    """An invariant was violated. ``subject`` names the subject whose events explain it."""

    def __init__(self, text: str, subject: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.subject = subject


@dataclass(frozen=True, slots=True)
class EventLine:
    """One line of the event log; ``subject`` is a group, a ``partition N``, or empty for all."""

    time_ms: int
    subject: str
    text: str

    def __str__(self) -> str:
        subject = f"{self.subject}: " if self.subject else ""
        return f"{self.time_ms / 1000:9.3f} s  {subject}{self.text}"


class EventLog:
    """The lines of one run. With ``wanted`` False nothing is kept, and callers need not log."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.lines: list[EventLine] = []

    def about(self, *subjects: str) -> Iterator[EventLine]:
        """Return the general lines and those about these subjects; all lines without a subject."""
        named = frozenset(filter(None, subjects))
        for line in self.lines:
            if not named or not line.subject or line.subject in named:
                yield line
