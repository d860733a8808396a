"""Answers that are known but not due yet: long polls of fetches from topics without records."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from protocol.groups.effects import Reply

if TYPE_CHECKING:
    from kio.static.protocol import Entity

    from protocol.groups.effects import Ticket


class DelayedReplies:
    """Replies by deadline; equal deadlines in the order in which they were delayed."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Ticket]] = []
        self._messages: dict[Ticket, Entity] = {}
        self._delayed = 0

    def __len__(self) -> int:
        return len(self._messages)

    def delay(self, ticket: Ticket, message: Entity, deadline_ms: int) -> None:
        """Keep an answer until its deadline."""
        self._delayed += 1
        self._messages[ticket] = message
        heappush(self._heap, (deadline_ms, self._delayed, ticket))

    def abandon(self, ticket: Ticket) -> None:
        """Forget an answer whose client no longer waits."""
        self._messages.pop(ticket, None)

    def next_deadline(self) -> int | None:
        """Return when the next answer is due."""
        while self._heap and self._heap[0][2] not in self._messages:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: int) -> list[Reply]:
        """Remove and return every answer whose deadline has passed."""
        replies = []
        while (deadline_ms := self.next_deadline()) is not None and deadline_ms <= now:
            ticket = heappop(self._heap)[2]
            replies.append(Reply(ticket, self._messages.pop(ticket)))
        return replies
