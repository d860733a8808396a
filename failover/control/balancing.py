"""Decide which coordinators move to other hosts, so that each host has its share of them.

A move never puts two replicas of a partition on one host if there is another way, then it evens out
the numbers of coordinators per host, then racks decide. The next move depends only on where the
coordinators are. So a plan that was interrupted continues as if it had not been.

Pure: the controller passes what it sees, and moves one coordinator after the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, NamedTuple

from failover.partition_kinds import CATALOG, title_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class CoordinatorMove:
    """Requests that coordinator ``node_id`` moves, with its data, from its home to ``host``.

    ``reason`` is part of a sentence.
    """

    node_id: int
    home: str
    host: str
    reason: str


class _Cost(NamedTuple):
    """Pairs of replicas of one partition on one host; the sum of squares of coordinators per host.

    The cost of a move is the difference that it makes.
    """

    together: int
    unevenness: int

    def plus(self, other: _Cost) -> _Cost:
        return _Cost(self.together + other.together, self.unevenness + other.unevenness)


NOTHING = _Cost(0, 0)


def balancing_moves(
    homes: Sequence[str], living: Mapping[str, str | None], placement: Sequence[Sequence[int]]
) -> tuple[CoordinatorMove, ...]:
    """Return the moves to make, one after the other; empty if the cluster is balanced.

    ``homes`` are the hosts of the coordinators, by node id, ``living`` the hosts that can run
    coordinators, with their racks (None: not known), ``placement`` the nodes of each partition. A
    coordinator whose host does not live stays.

    In the end the numbers of coordinators per host differ by at most 1, and no partition has more
    replicas on one host than it must, except if even two moves together make nothing better.
    """
    hosts = _Hosts(homes, living, placement)
    moves = []
    while (step := hosts.next_step()) is not None:
        moves.append(hosts.describe(*step))
        hosts.move(*step)
    return tuple(moves)


class _Hosts:
    """Which host each coordinator has, and what moves cost."""

    def __init__(
        self,
        homes: Sequence[str],
        living: Mapping[str, str | None],
        placement: Sequence[Sequence[int]],
    ) -> None:
        self._homes = list(homes)
        self._living = sorted(living, key=lambda host: (len(host), host))
        self._racks = {host: (rack is None, rack or host) for host, rack in living.items()}
        self._held = Counter({host: self._homes.count(host) for host in self._living})
        catalog = tuple(range(max(map(len, placement), default=0)))
        self._partitions = {**dict(enumerate(placement)), CATALOG.first: catalog}
        self._shared: list[Counter[int]] = [Counter() for _ in homes]
        """By node: how many partitions it shares with each other node."""
        for nodes in self._partitions.values():
            for one in nodes:
                self._shared[one].update(other for other in nodes if other != one)

    def next_step(self) -> tuple[int, str] | None:
        """Return the best single move, or the first of two that only together are an improvement.

        After the first of two, the second one or a better one is found as the best single move.
        """
        if self._is_ideal():
            return None
        moves = [(node_id, host) for node_id in self._movable() for host in self._living]
        best = min(moves, key=lambda move: (self._cost(*move), self._beside(*move)), default=None)
        if best is not None and self._cost(*best) < NOTHING:
            return best
        return min(self._firsts_of_two(), key=lambda found: found[0], default=(None, None))[1]

    def move(self, node_id: int, host: str) -> str:
        """Move a coordinator; return where it was."""
        home = self._homes[node_id]
        self._held[home] -= 1
        self._held[host] += 1
        self._homes[node_id] = host
        return home

    def describe(self, node_id: int, host: str) -> CoordinatorMove:
        """Return a move with its reason."""
        home, cost = self._homes[node_id], self._cost(node_id, host)
        if cost.together < 0:
            reason = f"{home} has several replicas of {title_of(self._held_together(node_id))}"
        elif cost < NOTHING:
            reason = f"{home} has {self._held[home]} coordinators and {host} has {self._held[host]}"
        else:
            reason = f"{home} gets room for another coordinator"
        return CoordinatorMove(node_id, home, host, reason)

    def _held_together(self, node_id: int) -> int:
        """Return a partition of which this node's host has another replica, too."""
        return min(
            number
            for number, nodes in self._partitions.items()
            if node_id in nodes
            and any(one != node_id and self._homes[one] == self._homes[node_id] for one in nodes)
        )

    def _is_ideal(self) -> bool:
        """Whether no cluster with as many hosts is better, whatever is moved."""
        numbers = [self._held[host] for host in self._living]
        if not numbers or max(numbers) - min(numbers) > 1:
            return not numbers
        fewest = sum(_pairs(len(nodes), len(numbers)) for nodes in self._partitions.values())
        twice = sum(self._together(node_id, home) for node_id, home in enumerate(self._homes))
        return twice <= 2 * fewest

    def _movable(self) -> list[int]:
        return [node_id for node_id, home in enumerate(self._homes) if home in self._held]

    def _cost(self, node_id: int, host: str) -> _Cost:
        """Return what it costs to move a coordinator; less than nothing is an improvement."""
        home = self._homes[node_id]
        if host == home:
            return NOTHING
        together = self._together(node_id, host) - self._together(node_id, home)
        return _Cost(together, 2 * (self._held[host] - self._held[home] + 1))

    def _together(self, node_id: int, host: str) -> int:
        """Return how many replicas a host has of this node's partitions, without this node's."""
        shared = self._shared[node_id].items()
        return sum(partitions for other, partitions in shared if self._homes[other] == host)

    def _beside(self, node_id: int, host: str) -> int:
        """Return how many more replicas of its partitions a node then has on its own rack."""
        new, old = self._racks[host], self._racks[self._homes[node_id]]
        racks: Counter[tuple[bool, str]] = Counter()
        for other, partitions in self._shared[node_id].items():
            if (home := self._homes[other]) in self._racks:
                racks[self._racks[home]] += partitions
        return racks[new] - racks[old]

    def _firsts_of_two(self) -> Iterator[tuple[tuple[_Cost, _Cost, int, int], tuple[int, str]]]:
        """Yield, for pairs of moves that are an improvement, a rank and the first move of them.

        One coordinator moves to a host, which another one leaves. Other pairs are no improvement if
        neither move is.
        """
        guests = defaultdict(list)
        for node_id in self._movable():
            guests[self._homes[node_id]].append(node_id)
        for node_id in self._movable():
            for number, host in enumerate(self._living):
                if host == self._homes[node_id]:
                    continue
                before = self._cost(node_id, host)
                for guest in guests[host]:
                    yield from self._with_guest(node_id, number, guest, before)

    def _with_guest(
        self, node_id: int, number: int, guest: int, before: _Cost
    ) -> Iterator[tuple[tuple[_Cost, _Cost, int, int], tuple[int, str]]]:
        """Yield the pairs in which a node takes the place of a guest of host ``number``."""
        host = self._living[number]
        alone = [self._cost(guest, other) for other in self._living]
        home = self.move(node_id, host)
        after = [self._cost(guest, other) for other in self._living]
        self.move(node_id, home)
        for other, first, second in zip(self._living, alone, after, strict=True):
            both = before.plus(second)
            if other != host and both < NOTHING:
                yield (both, before, node_id, number), (node_id, host)
                yield (both, first, guest, self._living.index(other)), (guest, other)


def _pairs(replicas: int, hosts: int) -> int:
    """Return the fewest pairs of replicas on one host that a partition can have."""
    each, more = divmod(replicas, hosts)
    return more * comb(each + 1, 2) + (hosts - more) * comb(each, 2)
