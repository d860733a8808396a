"""The groups that a node leads, as its memory has them: what it says of them needs no lease."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from failover.partitions.partition import PartitionState
from failover.routing import partition_for
from protocol.groups.shard import GroupShard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from failover.partitions.partition import Partition
    from protocol.groups.awaiting import Awaiting
    from protocol.groups.facts import MemberEvent
    from protocol.groups.group_type import GroupLook


class LedGroup(NamedTuple):
    """A group in a list; how often it has rebalanced here, in all and lately."""

    group_id: str
    group_type: str
    state: str
    members: int
    rebalances: int
    lately: int


class LedGroups:
    """The groups of the partitions that one node leads.

    ``rebalances`` returns how often a group has rebalanced here, in all and lately; the driver that
    counts it sets it.
    """

    def __init__(self, partitions: int, groups: Callable[[], Mapping[int, Partition]]) -> None:
        self.rebalances: Callable[[str], tuple[int, int]] = _not_counted
        self._partitions = partitions
        self._groups = groups

    def shards(self) -> list[GroupShard]:
        """Return the groups of each partition that is led here."""
        partitions = self._groups().values()
        return [_shard(each) for each in partitions if each.state is PartitionState.LEADER]

    def rows(self, start: int, count: int) -> Sequence[LedGroup]:
        """Return ``count`` groups from the one with number ``start`` on, fewer at the end.

        A group may be missed, or come twice, if others come or go between two calls.
        """
        found: list[LedGroup] = []
        for shard in self.shards():
            ids = shard.group_ids
            some = islice(ids, start, start + count - len(found))
            found += [self._row(shard, group_id) for group_id in some]
            start = max(start - len(ids), 0)
        return found

    def look(self, group_id: str, now: int) -> GroupLook | None:
        """Return a group with the sessions of some members; None if it is not led here."""
        shard = self._led(group_id)
        if shard is None:
            return None
        return shard.look(group_id, now)._replace(rebalances=self.rebalances(group_id)[0])

    def awaiting(self, group_id: str) -> Awaiting | None:
        """Return what a group led here waits for; None if it does not rebalance."""
        shard = self._led(group_id)
        return None if shard is None else shard.awaiting(group_id)

    def events(self, group_id: str) -> list[MemberEvent]:
        """Return the event log of a group, oldest first, if this node has a replica."""
        partition = self._groups().get(partition_for(group_id, self._partitions))
        return [] if partition is None else _shard(partition).events(group_id)

    def _row(self, shard: GroupShard, group_id: str) -> LedGroup:
        found = shard.summary(group_id)
        assert found is not None
        said = found.group_type, found.state, found.members
        return LedGroup(group_id, *said, *self.rebalances(group_id))

    def _led(self, group_id: str) -> GroupShard | None:
        partition = self._groups().get(partition_for(group_id, self._partitions))
        if partition is None or partition.state is not PartitionState.LEADER:
            return None
        return _shard(partition)


def _not_counted(_group_id: str) -> tuple[int, int]:
    return 0, 0


def _shard(partition: Partition) -> GroupShard:
    machine = partition.machine
    assert isinstance(machine, GroupShard)
    return machine
