"""Counts the groups that a node leads by type and state, and finds the most active ones.

A state is derived from a group's members, and there may be hundreds of thousands of groups. So a
count is not kept up with each change: it is repeated all the time, a slice at a time, and a reader
gets the last one that was completed. Kafka counts its groups once a minute.
"""

from __future__ import annotations

import heapq
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from protocol.groups.shard import GroupShard

GROUPS_AT_ONCE: Final = 1_000
"""The groups of one slice: about a millisecond."""

Counts: TypeAlias = "Mapping[tuple[str, str], int]"
"""The number of groups of each type and state."""


class RankedGroup(NamedTuple):
    """One of the most active groups; those that are equally active are ranked by size."""

    activity: int
    members: int
    group_id: str
    group_type: str
    state: str


class GroupCounts:
    """``last`` is the last complete count; it is replaced, so that any thread may read it.

    So are ``ranked``, the most active groups of that count, the most active first, and ``members``,
    the members of all groups.
    """

    def __init__(self, activity: Callable[[str], int] = lambda _: 0) -> None:
        """``activity`` returns how active the group with an id is."""
        self.last: Counts = MappingProxyType({})
        self.ranked: tuple[RankedGroup, ...] = ()
        self.members = 0
        self._activity = activity
        self._counting: Counter[tuple[str, str]] = Counter()
        self._ranking: list[RankedGroup] = []
        self._members = 0
        self._left: Iterator[tuple[GroupShard, str]] = iter(())

    def count(
        self, shards: Iterable[GroupShard], groups_max: int = GROUPS_AT_ONCE, ranked_max: int = 0
    ) -> None:
        """Count up to ``groups_max`` groups; at the end of ``shards``, begin again with them.

        Groups that come or go while they are counted may be missed, or counted once too often.
        """
        for _ in range(groups_max):
            found = next(self._left, None)
            if found is None:
                self._end(ranked_max)
                self._left = _walk(tuple(shards))
                return
            shard, group_id = found
            summary = shard.summary(group_id)
            if summary is None:
                continue
            self._counting[summary.group_type, summary.state] += 1
            self._members += summary.members
            if ranked_max:
                active = self._activity(group_id)
                self._rank(
                    RankedGroup(
                        active, summary.members, group_id, summary.group_type, summary.state
                    ),
                    ranked_max,
                )

    def _rank(self, group: RankedGroup, ranked_max: int) -> None:
        """Keep a group if it is among the most active ones."""
        if len(self._ranking) < ranked_max:
            heapq.heappush(self._ranking, group)
        else:
            heapq.heappushpop(self._ranking, group)

    def _end(self, ranked_max: int) -> None:
        """Publish a complete count."""
        self.last = MappingProxyType(dict(self._counting))
        self.ranked = tuple(heapq.nlargest(ranked_max, self._ranking))
        self.members = self._members
        self._counting.clear()
        self._ranking.clear()
        self._members = 0


def _walk(shards: Iterable[GroupShard]) -> Iterator[tuple[GroupShard, str]]:
    for shard in shards:
        for group_id in tuple(shard.group_ids):
            yield shard, group_id
