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

LANES_EACH: Final = 32
"""Connections to each node."""
SHUNNED_S: Final = 1.0
"""Kafka's ``reconnect.backoff.max.ms``."""

Address = tuple[str, int]


class Lane(Protocol):
    """One connection to one node."""

    address: Address

    @property
    def in_flight(self) -> int:
        """How many questions have no answer yet."""


L = TypeVar("L", bound=Lane)


class Lanes(Generic[L]):
    """All connections of a load to all nodes; ``make`` is one that opens when it is needed."""

    def __init__(self, addresses: Iterable[Address], make: Callable[[Address], L]) -> None:
        each = tuple(addresses)
        self.all = deque(make(address) for _ in range(LANES_EACH) for address in each)
        self._shunned_until: dict[Address, float] = dict.fromkeys(each, 0.0)

    def next(self) -> L:
        """Return the connection to ask on: equal ones take turns."""
        lanes = self.all
        lanes.rotate(-1)
        now = time.monotonic()
        shunned = {address for address, until in self._shunned_until.items() if until > now}
        fit = [lane for lane in lanes if lane.address not in shunned] if shunned else lanes
        return min(fit or lanes, key=_owed)

    def broke(self, address: Address) -> None:
        """Take notice that a connection to a node has broken, or could not be had."""
        self._shunned_until[address] = time.monotonic() + SHUNNED_S


def _owed(lane: Lane) -> int:
    return lane.in_flight
