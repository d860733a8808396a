"""Choose the host of each coordinator: the one with its data, else one that evens things out.

The preferred replicas of a partition are on consecutive nodes (modulo their number), so nodes with
near ids should be on different hosts and racks.

Pure: ``rollcall up`` and the controller ask, with the hosts that they found.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from storage.quorum import majority

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REPLICATION_FACTOR: Final = "offsets.topic.replication.factor"
STARTS: Final = 8
"""In how many orders coordinators are given hosts, each order beginning with another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorHost:
    """A host that coordinators may run on; ``node_ids`` are those whose data is there.

    A ``rack`` of None is not known: the host then counts as a rack of its own.
    """

    address: str
    rack: str | None = None
    node_ids: frozenset[int] = frozenset()


class AmbiguousHostError(Exception):
    """The data of one coordinator is on several hosts, and the caller must say which is valid."""

    def __init__(self, node_id: int, addresses: tuple[str, ...]) -> None:
        """``addresses`` are those of the hosts, sorted."""
        super().__init__(f"The data of node {node_id} is on several hosts: {', '.join(addresses)}.")
        self.node_id = node_id
        self.addresses = addresses


def host_placement(
    count: int, hosts: Iterable[CoordinatorHost], replicas: int = 3
) -> tuple[str, ...]:
    """Return the host's address of each coordinator, by node id.

    A coordinator stays where its data is. The others even out the number of coordinators per host.
    Then as few consecutive coordinators (modulo ``count``) as possible share a host, as few of two
    apart and so on below ``replicas``, and then as few share a rack. The search finds the best with
    small numbers, and a good one with others. Raises :class:`AmbiguousHostError`.
    """
    ordered = sorted(hosts, key=lambda host: (len(host.address), host.address))
    assert ordered, "no host"
    assert len({host.address for host in ordered}) == len(ordered), "a host is listed twice"
    fixed = _fixed(count, ordered)
    free = [node_id for node_id in range(count) if node_id not in fixed]
    tried = []
    for first in range(max(min(STARTS, len(free)), 1)):
        seats = _Seats(count, ordered, replicas)
        for node_id, number in fixed.items():
            seats.put(node_id, number)
        seats.fill([*free[first:], *free[:first]])
        tried.append(seats)
    best = min(tried, key=_Seats.cost)
    return tuple(ordered[number].address for number in best.taken)


def _fixed(count: int, hosts: Sequence[CoordinatorHost]) -> dict[int, int]:
    """Return the number of the host that has a coordinator's data, for those that have any."""
    fixed: dict[int, int] = {}
    for number, host in enumerate(hosts):
        for node_id in sorted(host.node_ids):
            assert 0 <= node_id < count, f"there is no node {node_id}"
            if node_id in fixed:
                both = (each.address for each in hosts if node_id in each.node_ids)
                raise AmbiguousHostError(node_id, tuple(sorted(both)))
            fixed[node_id] = number
    return fixed


class _Seats:
    """Which host each node has so far, by the host's number; and what that costs.

    A cost counts pairs of nodes on one host or rack, in one number: pairs on a host weigh more than
    all on a rack, and pairs of nodes with nearer ids more than all farther ones.
    """

    def __init__(self, count: int, hosts: Sequence[CoordinatorHost], replicas: int) -> None:
        self.taken = [-1] * count
        self._held = [0] * len(hosts)
        racks = [(host.rack is None, host.rack or host.address) for host in hosts]
        self._racks = [racks.index(rack) for rack in racks]
        self._reach = min(replicas - 1, count // 2)
        scale = count + 1
        self._host_weights = [scale ** (2 * self._reach - d) for d in range(self._reach + 1)]
        self._rack_weights = [scale ** (self._reach - d) for d in range(self._reach + 1)]

    def put(self, node_id: int, number: int) -> None:
        """Give a node a host."""
        if self.taken[node_id] >= 0:
            self._held[self.taken[node_id]] -= 1
        self.taken[node_id] = number
        self._held[number] += 1

    def fill(self, free: Sequence[int]) -> None:
        """Give each of these nodes, in this order, a host that has the fewest; then improve."""
        for node_id in free:
            fewest = min(self._held)
            fit = [number for number, held in enumerate(self._held) if held == fewest]
            self.put(node_id, min(fit, key=partial(self._cost, node_id)))
        while self._improve_all(free):
            pass

    def cost(self) -> int:
        """Return the sum over all nodes, which counts each pair twice."""
        return sum(self._cost(*each) for each in enumerate(self.taken))

    def _improve_all(self, free: Sequence[int]) -> bool:
        """Give nodes other hosts, one or two at a time, if that costs less; return if any did.

        The numbers of nodes per host stay as even as they are.
        """
        before = list(self.taken)
        for node_id in free:
            if self._cost(node_id, self.taken[node_id]):
                self._improve(node_id, free)
        return self.taken != before

    def _improve(self, node_id: int, free: Sequence[int]) -> None:
        """Let a node have a host with fewer nodes, or another node's, which gets one for it."""
        for number in self._lighter(node_id):
            self._try({node_id: number})
        for other in free:
            if self.taken[other] != self.taken[node_id]:
                for number in (self.taken[node_id], *self._lighter(node_id)):
                    if self._try({node_id: self.taken[other], other: number}):
                        break

    def _lighter(self, node_id: int) -> list[int]:
        """Return the hosts that may have one node more if the node's own has one less."""
        own = self._held[self.taken[node_id]]
        return [number for number, held in enumerate(self._held) if held + 1 == own]

    def _try(self, numbers: Mapping[int, int]) -> bool:
        """Give nodes these hosts if that costs less; return whether it does."""
        before = {node_id: self.taken[node_id] for node_id in numbers}
        cost = self._cost_together(before)
        for node_id, number in numbers.items():
            self.put(node_id, number)
        if self._cost_together(numbers) < cost:
            return True
        for node_id, number in before.items():
            self.put(node_id, number)
        return False

    def _cost_together(self, numbers: Mapping[int, int]) -> int:
        """Return what the pairs cost that these nodes are in, which have these hosts."""
        cost = 0
        for node_id, number in numbers.items():
            cost += self._cost(node_id, number)
            self.taken[node_id] = -1  # a pair of two of them counts once
        for node_id, number in numbers.items():
            self.taken[node_id] = number
        return cost

    def _cost(self, node_id: int, number: int) -> int:
        """Return what the pairs cost that a node is in if it has this host."""
        count, cost = len(self.taken), 0
        for distance in range(1, self._reach + 1):
            for near in {(node_id - distance) % count, (node_id + distance) % count}:
                other = self.taken[near]
                if other == number:
                    cost += self._host_weights[distance]
                if other >= 0 and self._racks[other] == self._racks[number]:
                    cost += self._rack_weights[distance]
        return cost


def positions(hosts_of_nodes: Iterable[str]) -> tuple[int, ...]:
    """Return, by node id, how many nodes with smaller ids are on the same host."""
    before: Counter[str] = Counter()
    found = []
    for host in hosts_of_nodes:
        found.append(before[host])
        before[host] += 1
    return tuple(found)


def missing(hosts: Iterable[str], replicas: int) -> str:
    """Return a sentence if there are fewer hosts than replicas of a partition; else empty."""
    there = len(set(hosts))
    assert there, "no host"
    if there >= replicas:
        return ""
    are_there = "is 1 host" if there == 1 else f"are {there} hosts"
    together = -(-replicas // there)
    stop = "" if replicas - together >= majority(replicas) else " and stop without it"
    wanted = "1 more host" if replicas - there == 1 else f"{replicas - there} more hosts"
    return (
        f"{REPLICATION_FACTOR} is {replicas}, but there {are_there}: partitions have {together}"
        f" replicas on one host{stop}; join {wanted} to Ray"
    )
