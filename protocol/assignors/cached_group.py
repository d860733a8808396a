"""A group as a worker caches it between two runs, so that a run is requested with changes only.

Members are kept in the order that :mod:`protocol.assignors.spec` requires, and the target
assignment as one owner per partition: a member that joins or leaves costs one pass over an array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from protocol.assignors.cached_racks import CachedRacks
from protocol.assignors.cached_subscriptions import CachedSubscriptions
from protocol.assignors.decode import decode_shared, decode_targets
from protocol.assignors.flat import FlatSubscriptions, FlatTargets
from protocol.assignors.spec import NOBODY, Bools, GroupSpec, Int32s, no_flags, no_values

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from protocol.groups.effects import GroupChanges, MemberRow
    from protocol.groups.topic_row import TopicRow


NO_ROWS: Final = (no_values(), no_values())


class CachedGroup:
    """Topics, subscriptions, members and the target assignment of one group.

    ``run`` is the number of the run whose result ``owner`` is. ``member_ids`` are sorted;
    ``owner`` holds indexes into them. ``has_target`` holds the members whose recorded target
    assignment, even if empty, equals the one in ``owner``. ``shared`` has each member's target
    assignment as bytes, where a partition may have several owners; ``owner`` is unused then.
    ``is_freed`` marks the partitions whose owner is gone since the last run.
    """

    __slots__ = (
        "_members",
        "_racks",
        "_starts",
        "_subscriptions",
        "has_target",
        "is_freed",
        "member_ids",
        "owner",
        "run",
        "shared",
        "topics",
    )

    def __init__(self) -> None:
        self.run = -1
        self.topics: list[TopicRow] = []
        self.member_ids: list[str] = []
        self.owner: Int32s = no_values()
        self.is_freed: Bools = no_flags()
        self.has_target: set[str] = set()
        self.shared: dict[str, bytes] = {}
        self._members: dict[str, MemberRow] = {}
        self._subscriptions = CachedSubscriptions()
        self._racks = CachedRacks()
        self._starts: Int32s = np.zeros(1, np.int32)

    @property
    def size(self) -> int:
        """The number of partitions."""
        return len(self.owner)

    def apply(self, changes: GroupChanges) -> None:
        """Apply changes to the group; see GroupChanges for the order."""
        if changes.topics is not None:
            self._take_topics(changes.topics)
        if changes.subscriptions:
            self._subscriptions.update(FlatSubscriptions.of(changes.subscriptions))
        self._take_members(changes.gone, changes.members)
        for number in changes.dropped_subscriptions:
            self._subscriptions.drop(number)

    def take_targets(self, targets: Iterable[tuple[str, bytes]]) -> None:
        """Store the members' target assignments, from the values of their records."""
        told = FlatTargets.of(tuple(targets))
        if not len(told):
            return
        place = {member_id: place for place, member_id in enumerate(self.member_ids)}
        places = np.array([place[member_id] for member_id in told.member_ids], np.int32)
        topic_ids = b"".join(row.topic_id for row in self.topics)
        owner, is_whole = decode_targets(told, places, topic_ids, self._starts)
        self.owner = np.where(owner == NOBODY, self.owner, owner)
        self.has_target.update(
            member_id for member_id, whole in zip(told.member_ids, is_whole, strict=True) if whole
        )

    def take_earlier(self, targets: Iterable[tuple[str, bytes]]) -> None:
        """Make members the previous owners of what they had before they were gone for a while.

        Those that have it now keep it in their records until the run's result takes it from them.
        """
        place = {member_id: place for place, member_id in enumerate(self.member_ids)}
        told = FlatTargets.of(tuple([each for each in targets if each[0] in place]))
        places = np.array([place[member_id] for member_id in told.member_ids], np.int32)
        topic_ids = b"".join([row.topic_id for row in self.topics])
        owner, _ = decode_targets(told, places, topic_ids, self._starts)
        given = owner != NOBODY
        for member in np.unique(self.owner[given & (self.owner != NOBODY)]).tolist():
            self.has_target.discard(self.member_ids[member])
        self.is_freed |= given
        self.owner = np.where(given, owner, self.owner)

    def spec(self, *, is_shared: bool = False) -> GroupSpec:
        """Return the group in the form for an assignor.

        ``is_shared``: with what each member had, in place of an owner of each partition.
        """
        class_of = {number: place for place, number in enumerate(self._subscriptions.numbers())}
        class_starts, class_topics = self._subscriptions.classes()
        rows = [self._members[member_id] for member_id in self.member_ids]
        rack_starts, partition_racks, member_rack = self._racks.arrays(self.topics, rows)
        previous_starts, previous_partitions = self._previous() if is_shared else NO_ROWS
        return GroupSpec(
            partition_starts=self._starts,
            class_starts=class_starts,
            class_topics=class_topics,
            member_class=np.array([class_of[row.subscription] for row in rows], np.int32),
            previous_owner=self.owner,
            instance_rank=_instance_ranks(rows),
            member_rack=member_rack,
            rack_starts=rack_starts,
            partition_racks=partition_racks,
            is_assignable=_assignable(self.topics, self._starts),
            previous_starts=previous_starts,
            previous_partitions=previous_partitions,
        )

    def _previous(self) -> tuple[Int32s, Int32s]:
        """Return the partitions that each member had, of topics that there still are (CSR)."""
        targets = self.shared
        nothing = b""
        told = FlatTargets.of(
            tuple([(each, targets.get(each, nothing)) for each in self.member_ids])
        )
        topic_ids = b"".join([row.topic_id for row in self.topics])
        return decode_shared(told, topic_ids, self._starts)

    def _take_topics(self, rows: Iterable[TopicRow]) -> None:
        """Renumber the partitions; those of topics that remain keep their owners."""
        before = {row.topic_id: place for place, row in enumerate(self.topics)}
        starts, owner, is_freed = self._starts, self.owner.copy(), self.is_freed
        self.topics = sorted(rows, key=lambda row: row.topic_id)
        self._subscriptions.take_topics([row.name for row in self.topics])
        self._racks.forget()
        self._starts = _prefix_sums(row.partitions for row in self.topics)
        self.owner = np.full(int(self._starts[-1]), NOBODY, np.int32)
        self.is_freed = np.zeros(len(self.owner), np.bool_)
        for place, row in enumerate(self.topics if before else ()):
            if (old := before.get(row.topic_id)) is not None:
                kept = min(row.partitions, int(starts[old + 1] - starts[old]))
                first, first_before = int(self._starts[place]), int(starts[old])
                self.owner[first : first + kept] = owner[first_before : first_before + kept]
                self.is_freed[first : first + kept] = is_freed[first_before : first_before + kept]
                owner[first_before : first_before + kept] = NOBODY
        for member in np.flatnonzero(np.bincount(owner[owner != NOBODY])).tolist():
            self.has_target.discard(self.member_ids[member])  # had partitions that no longer exist

    def _take_members(
        self, gone: Iterable[tuple[str, str | None]], rows: Iterable[MemberRow]
    ) -> None:
        members, has_target, before = self._members, self.has_target, self.member_ids
        id_before: dict[str, str] = {}
        successors: dict[str, str | None] = {}
        for old_id, new_id in gone:
            original = id_before.pop(old_id, old_id)
            successors[original] = new_id
            row = members.pop(old_id, None)
            target = self.shared.pop(old_id, None)
            if new_id is not None and target is not None:
                self.shared[new_id] = target
            had_target = old_id in has_target
            has_target.discard(old_id)
            if new_id is not None and row is not None:
                id_before[new_id] = original
                members[new_id] = row._replace(member_id=new_id)
                if had_target:
                    has_target.add(new_id)
        for row in rows:
            members[row.member_id] = row
        if not successors and len(members) == len(before):
            return
        self.member_ids = in_java_order(members)
        place = {member_id: place for place, member_id in enumerate(self.member_ids)}
        moves = [place.get(successors.get(each, each) or "", NOBODY) for each in before]
        # The last entry is the one that NOBODY, which is -1, looks up.
        owner = np.array([*moves, NOBODY], np.int32)[self.owner]
        self.is_freed |= (self.owner != NOBODY) & (owner == NOBODY)
        self.owner = owner

    def count_moved(self, owner: Int32s) -> int:
        """Return how many partitions had another owner, also one that is gone, before ``owner``."""
        had_another = (self.owner != owner) & (self.owner != NOBODY)
        return int(np.count_nonzero(had_another | (self.is_freed & (owner != NOBODY))))

    def take(self, run: int, owner: Int32s) -> None:
        """Store the result of a run; the owners imply what each member holds."""
        self.has_target.update(self.member_ids)
        self.run, self.owner, self.shared = run, owner, {}
        self.is_freed = np.zeros(len(owner), np.bool_)


def _assignable(topics: Sequence[TopicRow], starts: Int32s) -> Bools:
    """Return which partitions members may get; empty: all of them."""
    if all(row.assignable is None for row in topics):
        return no_flags()
    flags = np.ones(int(starts[-1]), np.bool_)
    for place, row in enumerate(topics):
        if row.assignable is not None:
            first = int(starts[place])
            flags[first : int(starts[place + 1])] = False
            known = [first + index for index in row.assignable if 0 <= index < row.partitions]
            flags[known] = True
    return flags


def in_java_order(texts: Collection[str]) -> list[str]:
    """Sort as Java does: by UTF-16, which differs only beyond the Basic Multilingual Plane."""
    if all(map(str.isascii, texts)):
        return sorted(texts)
    return sorted(texts, key=lambda text: text.encode("utf-16-be", "surrogatepass"))


def _prefix_sums(sizes: Iterable[int]) -> Int32s:
    return np.cumsum([0, *sizes], dtype=np.int32)


def _instance_ranks(rows: Sequence[MemberRow]) -> Int32s:
    static = {row.instance_id for row in rows if row.instance_id is not None}
    if not static:
        return no_values()
    rank = {instance_id: n for n, instance_id in enumerate(in_java_order(static))}
    return np.array(
        [NOBODY if row.instance_id is None else rank[row.instance_id] for row in rows], np.int32
    )
