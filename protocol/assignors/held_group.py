"""A group as a worker holds it between two runs, so that a run is asked for by what has changed.

Members are kept in the order that :mod:`protocol.assignors.spec` asks for, and the target
assignment as one owner per partition: a member that comes or goes costs one pass over an array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from protocol.assignors.spec import NOBODY, GroupSpec, Int32s, no_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from protocol.groups.effects import GroupChanges, MemberRow, TopicRow


class HeldGroup:
    """Topics, subscriptions, members and the target assignment of one group.

    ``epoch`` is the group epoch of the run whose result ``owner`` is. ``member_ids`` are sorted;
    ``owner`` holds indexes into them. ``has_target`` names the members that were given a target
    assignment before, be it an empty one.
    """

    __slots__ = (
        "_classes",
        "_members",
        "_starts",
        "_subscriptions",
        "_topic_index",
        "epoch",
        "has_target",
        "member_ids",
        "owner",
        "topics",
    )

    def __init__(self) -> None:
        self.epoch = -1
        self.topics: list[TopicRow] = []
        self.member_ids: list[str] = []
        self.owner: Int32s = no_values()
        self.has_target: set[str] = set()
        self._members: dict[str, MemberRow] = {}
        self._subscriptions: dict[int, tuple[str, ...]] = {}
        self._classes: dict[int, Int32s] = {}
        self._topic_index: dict[str, int] = {}
        self._starts: Int32s = np.zeros(1, np.int32)

    def apply(self, changes: GroupChanges) -> None:
        """Bring the group up to date; see GroupChanges for the order."""
        if changes.topics is not None:
            self._take_topics(changes.topics)
        self._subscriptions.update(changes.subscriptions)
        for number in changes.subscriptions:
            self._classes.pop(number, None)
        self._take_members(changes.replaced, changes.removed, changes.members)
        for number in changes.dropped_subscriptions:
            del self._subscriptions[number]
            self._classes.pop(number, None)

    def take_target(self, member_id: str, target: Mapping[bytes, Sequence[int]]) -> None:
        """Learn the partitions that a member has in the target assignment, by topic id."""
        self.has_target.add(member_id)
        member = self.member_ids.index(member_id)
        ids = {topic.topic_id: index for index, topic in enumerate(self.topics)}
        for topic_id, partitions in target.items():
            if (topic := ids.get(topic_id)) is None:
                continue
            first, end = int(self._starts[topic]), int(self._starts[topic + 1])
            for partition in partitions:
                if first + partition < end:
                    self.owner[first + partition] = member

    def spec(self) -> GroupSpec:
        """Give the group to an assignor."""
        numbers = sorted(self._subscriptions)
        class_of = {number: place for place, number in enumerate(numbers)}
        classes = [self._class_topics(number) for number in numbers]
        rows = [self._members[member_id] for member_id in self.member_ids]
        rack_starts, partition_racks, member_rack = _racks(self.topics, rows)
        return GroupSpec(
            partition_starts=self._starts,
            class_starts=_prefix_sums(len(each) for each in classes),
            class_topics=np.concatenate(classes) if classes else no_values(),
            member_class=np.array([class_of[row.subscription] for row in rows], np.int32),
            previous_owner=self.owner,
            instance_rank=_instance_ranks(rows),
            member_rack=member_rack,
            rack_starts=rack_starts,
            partition_racks=partition_racks,
        )

    def _class_topics(self, number: int) -> Int32s:
        found = self._classes.get(number)
        if found is None:
            index = self._topic_index
            names = {name for name in self._subscriptions[number] if name in index}
            found = np.array(sorted(index[name] for name in names), np.int32)
            self._classes[number] = found
        return found

    def _take_topics(self, rows: Iterable[TopicRow]) -> None:
        """Give the partitions new numbers; those of topics that stay keep their owners."""
        before = {row.topic_id: place for place, row in enumerate(self.topics)}
        starts, owner = self._starts, self.owner
        self.topics = sorted(rows, key=lambda row: row.topic_id)
        self._topic_index = {row.name: place for place, row in enumerate(self.topics)}
        self._starts = _prefix_sums(row.partitions for row in self.topics)
        self.owner = np.full(int(self._starts[-1]), NOBODY, np.int32)
        self._classes.clear()
        for place, row in enumerate(self.topics):
            if (old := before.get(row.topic_id)) is not None:
                kept = min(row.partitions, int(starts[old + 1] - starts[old]))
                first, first_before = int(self._starts[place]), int(starts[old])
                self.owner[first : first + kept] = owner[first_before : first_before + kept]

    def _take_members(
        self,
        replaced: Iterable[tuple[str, str]],
        removed: Iterable[str],
        rows: Iterable[MemberRow],
    ) -> None:
        members, has_target = self._members, self.has_target
        first_id: dict[str, str] = {}
        for old_id, new_id in replaced:
            first_id[new_id] = first_id.pop(old_id, old_id)
            if old_id in members:
                members[new_id] = members.pop(old_id)._replace(member_id=new_id)
            if old_id in has_target:
                has_target.remove(old_id)
                has_target.add(new_id)
        for member_id in removed:
            members.pop(member_id, None)
            has_target.discard(member_id)
        for row in rows:
            members[row.member_id] = row
        if len(members) == len(self.member_ids) and all(map(members.__contains__, self.member_ids)):
            return
        before = self.member_ids
        self.member_ids = sorted(members, key=_java_order)
        place = {member_id: place for place, member_id in enumerate(self.member_ids)}
        place |= {first: place[last] for last, first in first_id.items() if last in place}
        moves = [place.get(member_id, NOBODY) for member_id in before]
        # The last one is where NOBODY, which is -1, is looked up.
        self.owner = np.array([*moves, NOBODY], np.int32)[self.owner]


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _prefix_sums(sizes: Iterable[int]) -> Int32s:
    return np.cumsum([0, *sizes], dtype=np.int32)


def _instance_ranks(rows: Sequence[MemberRow]) -> Int32s:
    static = {row.instance_id for row in rows if row.instance_id is not None}
    if not static:
        return no_values()
    rank = {instance_id: n for n, instance_id in enumerate(sorted(static, key=_java_order))}
    return np.array(
        [NOBODY if row.instance_id is None else rank[row.instance_id] for row in rows], np.int32
    )


def _racks(topics: Sequence[TopicRow], rows: Sequence[MemberRow]) -> tuple[Int32s, Int32s, Int32s]:
    """Give the racks of partitions (CSR) and of members; empty when they do not matter."""
    if not any(topic.racks for topic in topics) or all(row.rack_id is None for row in rows):
        return no_values(), no_values(), no_values()
    names = {rack for topic in topics for racks in topic.racks for rack in racks}
    names |= {row.rack_id for row in rows if row.rack_id is not None}
    number = {name: n for n, name in enumerate(sorted(names))}
    of_partitions = [
        sorted(number[rack] for rack in racks)
        for topic in topics
        for racks in (topic.racks or ((),) * topic.partitions)
    ]
    return (
        _prefix_sums(len(racks) for racks in of_partitions),
        np.array([rack for racks in of_partitions for rack in racks], np.int32),
        np.array([NOBODY if r.rack_id is None else number[r.rack_id] for r in rows], np.int32),
    )
