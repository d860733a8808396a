"""Kafka's sticky assignors, as a classic group's leader runs them (KIP-54, KIP-429).

Members say what they own, and since which generation. They keep it as far as all get equally many;
only what is left moves. The cooperative assignor gives nobody a partition that another member
still owns: that one gives it up first and joins again, and the next generation hands it on.

The assignors of :mod:`protocol.assignors` are compiled when they are first used, which would stop
the members of a load for seconds; here a leader computes for one group, seldom.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Final

from protocol.members.assignor import Subscriber

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from protocol.wire.embedded import TopicPartition

ROUNDS_MAX: Final = 16
"""A chain of overlapping subscriptions improves only slowly after that."""


def sticky_assign(
    subscribers: Iterable[Subscriber], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Assign all partitions evenly, with as few moves as possible.

    If two members say that they own a partition, the newer generation counts; if both have the same
    one, neither does.
    """
    ranked = sorted(subscribers, key=Subscriber.rank)
    topics = [[name for name in sorted(set(each.topics)) if name in partitions] for each in ranked]
    owned = _owned(ranked, topics, partitions)
    if all(each == topics[0] for each in topics):
        same = topics[0] if topics else []
        wanted = [(name, index) for name in same for index in range(partitions[name])]
        shares = _evenly(owned, wanted)
    else:
        shares = list(map(list, _Overlapping(topics, owned, partitions).balanced()))
    return {each.member_id: sorted(share) for each, share in zip(ranked, shares, strict=True)}


def cooperative_assign(
    subscribers: Iterable[Subscriber], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Do the same, but leave out partitions that another member has not given up yet."""
    subscribers = tuple(subscribers)
    holders: dict[TopicPartition, set[str]] = defaultdict(set)
    for each in subscribers:
        for partition in each.owned:
            holders[partition].add(each.member_id)
    return {
        member_id: [each for each in share if holders.get(each, set()) <= {member_id}]
        for member_id, share in sticky_assign(subscribers, partitions).items()
    }


def _owned(
    ranked: Sequence[Subscriber], topics: Sequence[Sequence[str]], partitions: Mapping[str, int]
) -> list[list[TopicPartition]]:
    """Return what each member may keep: it subscribes to it, and has the newest claim alone."""
    newest: dict[TopicPartition, tuple[int, int | None]] = {}
    for position, each in enumerate(ranked):
        for name, index in dict.fromkeys(each.owned):
            if name in topics[position] and 0 <= index < partitions[name]:
                generation, _ = newest.get((name, index), (each.generation - 1, None))
                if each.generation > generation:
                    newest[name, index] = each.generation, position
                elif each.generation == generation:
                    newest[name, index] = generation, None
    owned: list[list[TopicPartition]] = [[] for _ in ranked]
    for partition, (_, owner) in sorted(newest.items()):
        if owner is not None:
            owned[owner].append(partition)
    return owned


def _evenly(
    owned: Sequence[Sequence[TopicPartition]], wanted: Sequence[TopicPartition]
) -> list[list[TopicPartition]]:
    """Share out partitions that all members subscribe to.

    What remains of the division goes first to members that own more than the quota.
    """
    if not owned:
        return []
    quota, extras = divmod(len(wanted), len(owned))
    sizes = [quota] * len(owned)
    by_need = sorted(range(len(owned)), key=lambda position: len(owned[position]) <= quota)
    for position in by_need[:extras]:
        sizes[position] += 1
    shares = [list(each[:size]) for each, size in zip(owned, sizes, strict=True)]
    kept = {partition for share in shares for partition in share}
    free = iter([partition for partition in wanted if partition not in kept])
    for share, size in zip(shares, sizes, strict=True):
        share.extend(next(free) for _ in range(size - len(share)))
    return shares


class _Overlapping:
    """Shares of members that subscribe to different topics."""

    def __init__(
        self,
        topics: Sequence[Sequence[str]],
        owned: Sequence[Sequence[TopicPartition]],
        partitions: Mapping[str, int],
    ) -> None:
        self._shares = [set(each) for each in owned]
        self._subscribed: dict[str, list[int]] = defaultdict(list)
        for position, names in enumerate(topics):
            for name in names:
                self._subscribed[name].append(position)
        self._partitions = partitions

    def balanced(self) -> list[set[TopicPartition]]:
        """Give every partition an owner, and move some while that makes loads more even."""
        self._fill()
        for _ in range(ROUNDS_MAX):
            moved = [self._level(name) for name in sorted(self._subscribed)]
            if not any(moved):
                break
        return self._shares

    def _fill(self) -> None:
        """Give partitions without an owner to the emptiest subscriber, rarest topics first."""
        kept = set().union(*self._shares)
        for name in sorted(self._subscribed, key=lambda name: (len(self._subscribed[name]), name)):
            loads = [(len(self._shares[each]), each) for each in self._subscribed[name]]
            heapify(loads)
            for index in range(self._partitions[name]):
                if (name, index) not in kept:
                    load, position = loads[0]
                    self._shares[position].add((name, index))
                    heapreplace(loads, (load + 1, position))

    def _level(self, name: str) -> bool:
        """Move partitions of a topic from the fullest subscriber that has some to the emptiest."""
        members = self._subscribed[name]
        movable = {
            each: sorted(place for place in self._shares[each] if place[0] == name)
            for each in members
        }
        moved = False
        while True:
            givers = [each for each in members if movable[each]]
            giver = max(givers, key=lambda each: len(self._shares[each]), default=None)
            taker = min(members, key=lambda each: len(self._shares[each]))
            if giver is None or len(self._shares[giver]) - len(self._shares[taker]) < 2:
                return moved
            partition = movable[giver].pop()
            self._shares[giver].remove(partition)
            self._shares[taker].add(partition)
            movable[taker].append(partition)
            moved = True
