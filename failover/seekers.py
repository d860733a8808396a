"""Who asks for a coordinator that was just lost waits a moment and hears of the next one at once.

An election takes a fifth of a second. A client that was told COORDINATOR_NOT_AVAILABLE meanwhile,
or the address of the dead, would back off for longer and longer, with all its neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from failover.coordinator_apis import FIND_COORDINATOR, GROUP
from failover.routing import partition_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.effects import Request, Ticket
    from protocol.wire.messages import FindCoordinatorRequest

PATIENCE_MS: Final = 500
"""So long after the loss of a leader its followers wait for another; then they are told what is
known, which may be the old one: only our link to it may have broken."""


class Seekers:
    """The partitions that have lost their leader, and the FindCoordinator requests that wait.

    In the beginning no leader is known: all of them count as lost.
    """

    def __init__(self, partitions: int, now: int) -> None:
        """``partitions`` of ``__consumer_offsets``."""
        self._partitions = partitions
        self._lost_ms = dict.fromkeys(range(partitions), now)
        self._waiting: dict[int, dict[Ticket, Request]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def lost(self, partition: int, now: int) -> None:
        """Take notice that a partition's leader is gone, or can not be reached from here."""
        self._lost_ms.setdefault(partition, now)

    def found(self, partition: int) -> list[Request]:
        """Take notice of its leader; return who waited for it."""
        self._lost_ms.pop(partition, None)
        return list(self._waiting.pop(partition, {}).values())

    def park(self, request: Request, now: int) -> bool:
        """Keep a request that asks for a lost leader; False: it had better be answered now."""
        if request.api_key != FIND_COORDINATOR or not self._lost_ms:
            return False
        message = cast("FindCoordinatorRequest", request.message)
        if message.key_type != GROUP:
            return False
        for key in message.coordinator_keys:
            partition = partition_for(key, self._partitions)
            lost_ms = self._lost_ms.get(partition)
            if lost_ms is not None and now < lost_ms + PATIENCE_MS:
                self._waiting.setdefault(partition, {})[request.ticket] = request
                return True
        return False

    def abandon(self, ticket: Ticket) -> None:
        """Forget a request whose client has gone away."""
        for waiting in self._waiting.values():
            waiting.pop(ticket, None)

    def due(self, now: int) -> Iterable[Request]:
        """Take out those that have waited long enough."""
        late = [each for each in self._waiting if self._lost_ms[each] + PATIENCE_MS <= now]
        return [request for each in late for request in self._waiting.pop(each).values()]

    def next_deadline(self) -> int | None:
        """When :meth:`due` has something."""
        return min((self._lost_ms[each] + PATIENCE_MS for each in self._waiting), default=None)
