"""Chooses the connection for a load client's FindCoordinator requests.

A real client sends them over its metadata connection: it uses the node with the fewest requests in
flight, and avoids a node for a while after its connection broke. Members of a load share several
such connections to each node: a coordinator answers the requests of one connection in turn, and
thousands of clients in one queue would wait for each other.
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
SILENT_BACKOFF_S: Final = 10.0
"""Kafka's ``socket.connection.setup.timeout.ms``: how long a client that closed the connection to a
silent node tries to open another one, while it asks other nodes."""

Address = tuple[str, int]


class LookupConnection(Protocol):
    """One connection to one node."""

    address: Address

    @property
    def in_flight(self) -> int:
        """The number of requests without a response yet."""


C = TypeVar("C", bound=LookupConnection)


class LookupConnections(Generic[C]):
    """All lookup connections of a load; ``make`` creates one, which opens when it is used."""

    def __init__(self, addresses: Iterable[Address], make: Callable[[Address], C]) -> None:
        each = tuple(addresses)
        self.all = deque(make(address) for _ in range(CONNECTIONS_PER_NODE) for address in each)
        self._backoff_until: dict[Address, float] = dict.fromkeys(each, 0.0)

    def next(self) -> C:
        """Return the next connection; equal ones take turns."""
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
        """Avoid a node for a while: a connection to it has broken or failed to open."""
        self._backoff_until[address] = time.monotonic() + RECONNECT_BACKOFF_S

    def did_not_answer(self, address: Address) -> None:
        """Avoid a node for longer: a request to it has timed out."""
        self._backoff_until[address] = time.monotonic() + SILENT_BACKOFF_S


def _owed(connection: LookupConnection) -> int:
    return connection.in_flight
