"""Choose the nodes of each partition: on different hosts and racks, with equal shares for all.

Of the replicas of a partition, as few pairs as possible are on one host, and then on one rack. The
sets of nodes for which that holds are the bases of a matroid: a node is worth as much as the counts
of its host and its rack say. So greedy choices find the best set, and exchanges along shortest
paths find the most equal shares.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def replica_placement(
    hosts_of_nodes: Sequence[str], racks: Mapping[str, str | None], replicas: int
) -> tuple[tuple[int, ...], ...]:
    """Return the nodes of each partition: node i is the first of partition i, its preferred leader.

    ``hosts_of_nodes`` has the address of each node's host, ``racks`` the rack of each address. A
    host whose rack is not known counts as a rack of its own. There are fewer replicas if there are
    fewer nodes.

    No two replicas of a partition share a host if there are enough hosts; otherwise they are spread
    as evenly as possible. The same holds for racks, as far as the hosts permit it. Then the numbers
    of replicas per node are as equal as possible. If replicas on consecutive nodes (modulo their
    number) are like that, the result is these.
    """
    count = len(hosts_of_nodes)
    places = [_Place.of(host, racks.get(host)) for host in hosts_of_nodes]
    placed = [_Replicas([node], places) for node in range(count)]
    loads = [1] * count
    wanted = min(replicas, count)
    unlike = []
    for own in placed:
        best = _Replicas(list(own.nodes), places)
        best.fill(wanted, loads)
        consecutive = [(own.leader + more) % count for more in range(wanted)]
        if _Replicas(consecutive, places).cost == best.cost:
            for node in consecutive[1:]:
                own.add(node)
                loads[node] += 1
        else:
            unlike.append(own)
    for own in unlike:
        own.fill(wanted, loads)
        for node in own.nodes[1:]:
            loads[node] += 1
    while _even_out(placed, loads):
        pass
    return tuple(own.ordered() for own in placed)


@dataclass(frozen=True, slots=True)
class _Place:
    """The host and the rack of a node."""

    host: str
    rack: tuple[bool, str]

    @classmethod
    def of(cls, host: str, rack: str | None) -> _Place:
        return cls(host, (rack is None, rack or host))


@dataclass(slots=True)
class _Replicas:
    """The nodes of one partition, the preferred leader first."""

    nodes: list[int]
    places: Sequence[_Place]
    cost: tuple[int, int] = (0, 0)
    """Pairs of replicas on one host, and on one rack."""
    _hosts: Counter[str] = field(default_factory=Counter)
    _racks: Counter[tuple[bool, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        nodes, self.nodes = self.nodes, []
        for node in nodes:
            self.add(node)

    @property
    def leader(self) -> int:
        """The preferred leader."""
        return self.nodes[0]

    def add(self, node: int) -> None:
        """Add a node."""
        hosts, racks = self.worth(node)
        self.cost = self.cost[0] + hosts, self.cost[1] + racks
        self.nodes.append(node)
        self._hosts[self.places[node].host] += 1
        self._racks[self.places[node].rack] += 1

    def remove(self, node: int) -> None:
        """Remove a node."""
        self.nodes.remove(node)
        self._hosts[self.places[node].host] -= 1
        self._racks[self.places[node].rack] -= 1
        hosts, racks = self.worth(node)
        self.cost = self.cost[0] - hosts, self.cost[1] - racks

    def worth(self, node: int) -> tuple[int, int]:
        """Return what it costs to add a node."""
        place = self.places[node]
        return self._hosts[place.host], self._racks[place.rack]

    def distance(self, node: int) -> int:
        """Return how many ids after the preferred leader's a node's is."""
        return (node - self.leader) % len(self.places)

    def fill(self, wanted: int, loads: Sequence[int]) -> None:
        """Add nodes at the lowest cost, of these the least loaded, of these the next ones."""
        others = sorted(range(len(self.places)), key=self.distance)[1:]
        while len(self.nodes) < wanted:
            node = min(others, key=lambda each: (*self.worth(each), loads[each]))
            others.remove(node)
            self.add(node)

    def substitutes(self, node: int) -> list[int]:
        """Return the nodes that could be there instead of one, at the same cost."""
        if node == self.leader or node not in self.nodes:
            return []
        position = self.nodes.index(node)
        self.remove(node)
        worth = self.worth(node)
        found = [
            other
            for other in range(len(self.places))
            if other != node and other not in self.nodes and self.worth(other) == worth
        ]
        self.add(node)
        self.nodes.insert(position, self.nodes.pop())
        return found

    def ordered(self) -> tuple[int, ...]:
        """Return the nodes by their distance from the preferred leader."""
        return tuple(sorted(self.nodes, key=self.distance))


def _even_out(placed: Sequence[_Replicas], loads: list[int]) -> bool:
    """Take one replica from a node and give one to a node with two fewer; return False if none can.

    In between, other nodes may each get one and give one away. The loads are then as equal as they
    can be.
    """
    for node in sorted(range(len(loads)), key=lambda each: -loads[each]):
        if loads[node] - min(loads) < 2:
            return False
        path = _path(placed, loads, node)
        if path:
            for own, old, new in path:
                own.remove(old)
                own.add(new)
            loads[node] -= 1
            loads[path[-1][2]] += 1
            return True
    return False


def _path(
    placed: Sequence[_Replicas], loads: Sequence[int], start: int
) -> list[tuple[_Replicas, int, int]]:
    """Return the fewest exchanges that move a replica from a node to one with two fewer, in order.

    There is none: an empty list. On a shortest path, exchanges in one partition do not interfere.
    """
    came: dict[int, tuple[_Replicas, int, int]] = {}
    reached = [start]
    for node in reached:
        for own, new in _exchanges(placed, node):
            if new == start or new in came:
                continue
            came[new] = own, node, new
            reached.append(new)
            if loads[new] <= loads[start] - 2:
                path = [came[new]]
                while path[-1][1] != start:
                    path.append(came[path[-1][1]])
                return path[::-1]
    return []


def _exchanges(placed: Sequence[_Replicas], node: int) -> Iterator[tuple[_Replicas, int]]:
    """Yield each partition that could have another node instead of one, and that node."""
    for own in placed:
        for other in own.substitutes(node):
            yield own, other
