"""Which node a load client asks who coordinates its group, and over which connection.

A real client asks over the connection that it has for its metadata; it takes the node that owes it
the fewest answers and leaves one alone for a while to which its connection has broken. Members of a
load share a few such connections to each node. More than one: a coordinator answers what comes over
one connection in turn, and thousands of clients in one queue would wait for each other.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CONNECTIONS_PER_NODE: Final = 32
"""Connections to each node."""
RECONNECT_BACKOFF_S: Final = 1.0
"""Kafka's ``reconnect.backoff.max.ms``."""

Address = tuple[str, int]


class LookupConnection(Protocol):
    """One connection to one node."""

    address: Address

    @property
    def in_flight(self) -> int:
        """How many questions have no answer yet."""


C = TypeVar("C", bound=LookupConnection)


class LookupConnections(Generic[C]):
    """All connections of a load to all nodes; ``make`` is one that opens when it is needed."""

    def __init__(self, addresses: Iterable[Address], make: Callable[[Address], C]) -> None:
        each = tuple(addresses)
        self.all = deque(make(address) for _ in range(CONNECTIONS_PER_NODE) for address in each)
        self._backoff_until: dict[Address, float] = dict.fromkeys(each, 0.0)

    def next(self) -> C:
        """Return the connection to ask on: equal ones take turns."""
        connections = self.all
        connections.rotate(-1)
        now = time.monotonic()
        backing_off = {address for address, until in self._backoff_until.items() if until > now}
        fit = (
            [connection for connection in connections if connection.address not in backing_off]
            if backing_off
            else connections
        )
        return min(fit or connections, key=_owed)

    def broke(self, address: Address) -> None:
        """Take notice that a connection to a node has broken, or could not be had."""
        self._backoff_until[address] = time.monotonic() + RECONNECT_BACKOFF_S


def _owed(connection: LookupConnection) -> int:
    return connection.in_flight
