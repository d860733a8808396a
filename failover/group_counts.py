"""Counts the groups that a node leads by type and state, a slice at a time.

A state is derived from a group's members, and there may be hundreds of thousands of groups. So a
count is not kept up with each change: it is repeated all the time, and a reader gets the last one
that was completed. Kafka counts its groups once a minute.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from protocol.groups.shard import GroupShard

GROUPS_AT_ONCE: Final = 1_000
"""The groups of one slice: about a millisecond."""

Counts: TypeAlias = "Mapping[tuple[str, str], int]"
"""The number of groups of each type and state."""


class GroupCounts:
    """``last`` is the last complete count; it is replaced, so that any thread may read it."""

    def __init__(self) -> None:
        self.last: Counts = MappingProxyType({})
        self._counting: Counter[tuple[str, str]] = Counter()
        self._left: Iterator[tuple[GroupShard, str]] = iter(())

    def count(self, shards: Iterable[GroupShard], groups_max: int = GROUPS_AT_ONCE) -> None:
        """Count up to ``groups_max`` groups; at the end of ``shards``, begin again with them.

        Groups that come or go while they are counted may be missed, or counted once too often.
        """
        for _ in range(groups_max):
            found = next(self._left, None)
            if found is None:
                self.last = MappingProxyType(dict(self._counting))
                self._counting.clear()
                self._left = _walk(tuple(shards))
                return
            shard, group_id = found
            summary = shard.summary(group_id)
            if summary is not None:
                self._counting[summary.group_type, summary.state] += 1


def _walk(shards: Iterable[GroupShard]) -> Iterator[tuple[GroupShard, str]]:
    for shard in shards:
        for group_id in tuple(shard.group_ids):
            yield shard, group_id
