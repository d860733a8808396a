"""Decide which coordinators move to other hosts, so that each host has its share of them.

A move never puts two replicas of a partition on one host if there is another way, then it leaves a
host that is to be taken away, then it evens out the numbers of coordinators per host, then racks
decide. The next move depends only on where the coordinators are. So a plan that was interrupted
continues as if it had not been.

Pure: the controller passes what it sees, and moves one coordinator after the other.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, NamedTuple

from failover.partition_kinds import CATALOG, title_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class CoordinatorMove:
    """Requests that coordinator ``node_id`` moves, with its data, from its home to ``host``.

    ``reason`` is part of a sentence.
    """

    node_id: int
    home: str
    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class Departure:
    """The moves after which hosts can be taken away.

    ``crowded`` are partitions of which more replicas then share a host, as the hosts that stay have
    no better room; only if all partitions together have more of such replicas than before.
    """

    moves: tuple[CoordinatorMove, ...]
    crowded: tuple[int, ...] = ()


class _Cost(NamedTuple):
    """What a move changes: first what is decided first, less is better.

    ``urgent`` are coordinators on hosts that they must leave whatever it costs, ``together`` pairs
    of replicas of one partition on one host, ``misplaced`` coordinators on hosts that are to be
    taken away, ``unevenness`` the sum of squares of coordinators per host that stays.
    """

    urgent: int
    together: int
    misplaced: int
    unevenness: int

    def plus(self, other: _Cost) -> _Cost:
        return _Cost(*map(operator.add, self, other))


NOTHING = _Cost(0, 0, 0, 0)


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
    return _Hosts(homes, living, placement).plan()


def departure(
    homes: Sequence[str],
    living: Mapping[str, str | None],
    placement: Sequence[Sequence[int]],
    without: Collection[str],
) -> Departure:
    """Return the moves that balance a cluster without some of its living hosts; others must stay.

    Replicas share hosts on the way only if these hosts cannot be left otherwise.
    """
    hosts = _Hosts(homes, living, placement, without)
    moves = hosts.plan()
    if not hosts.is_left():
        hosts = _Hosts(homes, living, placement, without, is_urgent=True)
        moves = hosts.plan()
    before, after = _sharing(homes, hosts.partitions), _sharing(hosts.homes, hosts.partitions)
    if after.total() <= before.total():
        return Departure(moves)
    return Departure(moves, tuple(sorted(one for one in after if after[one] > before[one])))


def _sharing(homes: Sequence[str], partitions: Mapping[int, Sequence[int]]) -> Counter[int]:
    """Return how many pairs of replicas of each partition are on one host."""
    return Counter(
        {
            number: sum(homes[one] == homes[other] for one, other in combinations(nodes, 2))
            for number, nodes in partitions.items()
        }
    )


class _Hosts:
    """Which host each coordinator has, and what moves cost. ``homes`` change with each move."""

    def __init__(
        self,
        homes: Sequence[str],
        living: Mapping[str, str | None],
        placement: Sequence[Sequence[int]],
        without: Collection[str] = (),
        *,
        is_urgent: bool = False,
    ) -> None:
        """Plan to leave the hosts ``without``; ``is_urgent``: even if replicas then share hosts."""
        self.homes = list(homes)
        self._living = sorted({*living} - {*without}, key=lambda host: (len(host), host))
        self._to_leave = {*living} & {*without}
        self._is_urgent = is_urgent
        self._racks = {host: (rack is None, rack or host) for host, rack in living.items()}
        self._held = Counter({host: self.homes.count(host) for host in living})
        catalog = tuple(range(max(map(len, placement), default=0)))
        self.partitions = {**dict(enumerate(placement)), CATALOG.first: catalog}
        self._shared: list[Counter[int]] = [Counter() for _ in homes]
        """By node: how many partitions it shares with each other node."""
        for nodes in self.partitions.values():
            for one in nodes:
                self._shared[one].update(other for other in nodes if other != one)

    def plan(self) -> tuple[CoordinatorMove, ...]:
        """Make the best moves until nothing makes it better; return them."""
        moves = []
        while (step := self.next_step()) is not None:
            moves.append(self.describe(*step))
            self.move(*step)
        return tuple(moves)

    def is_left(self) -> bool:
        """Whether nothing is on the hosts that are to be taken away."""
        return not any(self._held[host] for host in self._to_leave)

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
        home = self.homes[node_id]
        self._held[home] -= 1
        self._held[host] += 1
        self.homes[node_id] = host
        return home

    def describe(self, node_id: int, host: str) -> CoordinatorMove:
        """Return a move with its reason."""
        home, cost = self.homes[node_id], self._cost(node_id, host)
        if home in self._to_leave:
            reason = f"{home} is to be taken away"
        elif cost.together < 0:
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
            for number, nodes in self.partitions.items()
            if node_id in nodes
            and any(one != node_id and self.homes[one] == self.homes[node_id] for one in nodes)
        )

    def _is_ideal(self) -> bool:
        """Whether no cluster with as many hosts is better, whatever is moved."""
        if not self.is_left():
            return False
        numbers = [self._held[host] for host in self._living]
        if not numbers or max(numbers) - min(numbers) > 1:
            return not numbers
        fewest = sum(_pairs(len(nodes), len(numbers)) for nodes in self.partitions.values())
        twice = sum(self._together(node_id, home) for node_id, home in enumerate(self.homes))
        return twice <= 2 * fewest

    def _movable(self) -> list[int]:
        return [node_id for node_id, home in enumerate(self.homes) if home in self._held]

    def _cost(self, node_id: int, host: str) -> _Cost:
        """Return what it costs to move a coordinator; less than nothing is an improvement."""
        home = self.homes[node_id]
        if host == home:
            return NOTHING
        together = self._together(node_id, host) - self._together(node_id, home)
        if home in self._to_leave:
            return _Cost(-self._is_urgent, together, -1, 2 * self._held[host] + 1)
        return _Cost(0, together, 0, 2 * (self._held[host] - self._held[home] + 1))

    def _together(self, node_id: int, host: str) -> int:
        """Return how many replicas a host has of this node's partitions, without this node's."""
        shared = self._shared[node_id].items()
        return sum(partitions for other, partitions in shared if self.homes[other] == host)

    def _beside(self, node_id: int, host: str) -> int:
        """Return how many more replicas of its partitions a node then has on its own rack."""
        new, old = self._racks[host], self._racks[self.homes[node_id]]
        racks: Counter[tuple[bool, str]] = Counter()
        for other, partitions in self._shared[node_id].items():
            if (home := self.homes[other]) in self._racks:
                racks[self._racks[home]] += partitions
        return racks[new] - racks[old]

    def _firsts_of_two(self) -> Iterator[tuple[tuple[_Cost, _Cost, int, int], tuple[int, str]]]:
        """Yield, for pairs of moves that are an improvement, a rank and the first move of them.

        One coordinator moves to a host, which another one leaves. Other pairs are no improvement if
        neither move is.
        """
        guests = defaultdict(list)
        for node_id in self._movable():
            guests[self.homes[node_id]].append(node_id)
        for node_id in self._movable():
            for number, host in enumerate(self._living):
                if host == self.homes[node_id]:
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
