"""What happens to a host between its turns, as functions that take the time last."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from failover.host import Host
    from failover.turn import Turn
    from protocol.groups.effects import Request


def receive(_host: Host, turn: Turn, request: Request, _now: int) -> None:
    """Pass a request on."""
    turn.receive(request)


def synced(_host: Host, turn: Turn, _now: int) -> None:
    """Note that a sync is done."""
    turn.synced()


def abandon(host: Host, ticket: int, _now: int) -> None:
    """Note that nobody waits for an answer any more."""
    host.abandon(ticket)
