"""Catalogue changes that clients requested from a node that does not lead the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from failover.effects import Forward

if TYPE_CHECKING:
    from protocol.groups.effects import Request, Ticket

WAIT_MS: Final = 5_000
"""How long a change waits for a leader of the catalogue: longer than an election takes."""


class Forwards:
    """The requests sent to the catalogue's leader, and those that wait until there is one."""

    def __init__(self) -> None:
        self._under_way: dict[Ticket, Request] = {}
        self._waiting: dict[Ticket, tuple[int, Request]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def carry(self, request: Request, leader: int) -> Forward:
        """Record a request as sent."""
        self._under_way[request.ticket] = request
        return Forward(leader, request)

    def wait(self, request: Request, now: int) -> None:
        """Keep a request until a leader is known."""
        self._waiting[request.ticket] = (now + WAIT_MS, request)

    def answered(self, ticket: Ticket) -> Request | None:
        """Remove and return a request; None when it is unknown, or no longer known."""
        return self._under_way.pop(ticket, None)

    def take_waiting(self) -> list[Request]:
        """Remove and return all waiting requests: there may be a leader now."""
        requests = [request for _, request in self._waiting.values()]
        self._waiting.clear()
        return requests

    def overdue(self, now: int) -> list[Request]:
        """Remove and return the requests that have waited too long."""
        due = [request for deadline_ms, request in self._waiting.values() if deadline_ms <= now]
        for request in due:
            del self._waiting[request.ticket]
        return due

    def next_deadline(self) -> int | None:
        """Return when :meth:`overdue` next has something."""
        first = next(iter(self._waiting.values()), None)
        return None if first is None else first[0]
