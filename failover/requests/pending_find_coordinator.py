"""FindCoordinator requests for a coordinator that was just lost wait for the next one.

An election takes a fifth of a second. A client that received COORDINATOR_NOT_AVAILABLE meanwhile,
or the address of the dead node, would back off for longer and longer, as would all the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from failover.apis.coordinators import FIND_COORDINATOR, GROUP, SHARE, partition_of
from failover.partition_kinds import PLACED

if TYPE_CHECKING:
    from protocol.groups.effects import Request, Ticket
    from protocol.wire.messages import FindCoordinatorRequest

PATIENCE_MS: Final = 500
"""The longest wait of a request; then it gets the last known leader, possibly the old one."""

RECENT_MS: Final = 5_000
"""For this long after its loss a leader may be replaced at any moment. After that no request waits:
perhaps only our link to it has broken."""


class PendingFindCoordinator:
    """The partitions that lost their leader, and the FindCoordinator requests that wait.

    At first no leader is known: all of them count as lost.
    """

    def __init__(self, partitions: int, now: int) -> None:
        """Set how many ``partitions`` ``__consumer_offsets`` and ``__share_group_state`` have."""
        self._partitions = partitions
        self._lost_ms = {number: now for kind in PLACED for number in kind.numbers(partitions)}
        self._waiting: dict[int, dict[Ticket, tuple[int, Request]]] = {}

    def __bool__(self) -> bool:
        return any(self._waiting.values())

    def lost(self, partition: int, now: int) -> None:
        """Note that a partition's leader is gone, or cannot be reached from here."""
        self._lost_ms.setdefault(partition, now)

    def found(self, partition: int) -> list[Request]:
        """Note its leader; return the requests that waited for it."""
        self._lost_ms.pop(partition, None)
        return [request for _, request in self._waiting.pop(partition, {}).values()]

    def delay(self, request: Request, now: int) -> bool:
        """Keep a request that asks for a lost leader; return False when to answer it now."""
        if request.api_key != FIND_COORDINATOR or not self._lost_ms:
            return False
        message = cast("FindCoordinatorRequest", request.message)
        if message.key_type not in (GROUP, SHARE):
            return False
        for key in message.coordinator_keys:
            try:
                partition = partition_of(message.key_type, key, self._partitions)
            except ValueError:
                continue
            lost_ms = self._lost_ms.get(partition)
            if lost_ms is not None and now < lost_ms + RECENT_MS:
                waiting = self._waiting.setdefault(partition, {})
                waiting[request.ticket] = (now + PATIENCE_MS, request)
                return True
        return False

    def abandon(self, ticket: Ticket) -> None:
        """Forget a request whose client has disconnected."""
        for waiting in self._waiting.values():
            waiting.pop(ticket, None)

    def due(self, now: int) -> list[Request]:
        """Remove and return the requests that have waited long enough."""
        late: list[Request] = []
        for waiting in self._waiting.values():
            while (first := next(iter(waiting.values()), None)) and first[0] <= now:
                late.append(first[1])
                del waiting[first[1].ticket]
        return late

    def next_deadline(self) -> int | None:
        """Return when :meth:`due` next has something."""
        firsts = (next(iter(each.values()), None) for each in self._waiting.values())
        return min((first[0] for first in firsts if first is not None), default=None)
