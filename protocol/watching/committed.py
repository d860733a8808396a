"""The committed offsets of a watched cluster: where each is, and when it was committed.

One integer holds both, and whether somebody else has got the partition since then. Nothing else of
a commit is kept. An offset takes 160 bytes at most, and a group and each of its topics take a
dictionary: ``docs/watch.md`` says how much a million takes, and a test holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OFFSETS_MAX: Final = 2_000_000
"""Offsets that are kept; those of further partitions are counted."""

NAMES_MAX: Final = 100_000
"""Names of topics that are kept to be shared by groups."""

_TIME_BITS: Final = 47
_TIME_MASK: Final = (1 << _TIME_BITS) - 1
_IS_ANOTHERS: Final = 1 << _TIME_BITS
_OFFSET_SHIFT: Final = _TIME_BITS + 1


class Committed(NamedTuple):
    """A committed offset, and when it was committed (Unix ms)."""

    offset: int
    time_ms: int


class LastCommit(NamedTuple):
    """When a member last committed one of its partitions (Unix ms); None: it is not known to have.

    ``is_anothers``: there are commits, but each is older than the member's gain of its partition.
    """

    time_ms: int | None
    is_anothers: bool


class CommittedOffsets:
    """The offsets of all groups; ``left_out`` counts those for which there was no room."""

    def __init__(self, offsets_max: int = OFFSETS_MAX) -> None:
        self._max = offsets_max
        self._count = 0
        self._names: dict[str, str] = {}
        self._groups: dict[str, dict[str, dict[int, int]]] = {}
        self.left_out = 0

    def __len__(self) -> int:
        return self._count

    def put(self, group_id: str, topic: str, partition: int, committed: Committed) -> None:
        """Store an offset, if there is room for it."""
        topics = self._groups.get(group_id)
        found = None if topics is None else topics.get(topic)
        if found is None or partition not in found:
            if self._count >= self._max:
                self.left_out += 1
                return
            self._count += 1
            if topics is None:
                topics = self._groups[group_id] = {}
            if found is None:
                found = topics[self._same(topic)] = {}
        time_ms = min(max(committed.time_ms, 0), _TIME_MASK)
        found[partition] = max(committed.offset, 0) << _OFFSET_SHIFT | time_ms

    def _same(self, topic: str) -> str:
        """Return the object that other groups have as this topic's name."""
        if len(self._names) > NAMES_MAX:
            self._names.clear()
        return self._names.setdefault(topic, topic)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Remove an offset; there may be none."""
        topics = self._groups.get(group_id, {})
        found = topics.get(topic, {})
        if found.pop(partition, None) is None:
            return
        self._count -= 1
        if not found:
            del topics[topic]
        if not topics:
            del self._groups[group_id]

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        """Return an offset; None if there is none."""
        packed = self._groups.get(group_id, {}).get(topic, {}).get(partition)
        return None if packed is None else _unpacked(packed)

    def groups(self) -> Iterable[str]:
        """Return the ids of the groups that have offsets."""
        return self._groups.keys()

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, Committed]]:
        """Return a group's offsets: topic, partition, offset."""
        for topic, found in self._groups.get(group_id, {}).items():
            for partition, packed in found.items():
                yield topic, partition, _unpacked(packed)

    def topics_of(self, group_id: str) -> list[str]:
        """Return the topics of which a group has offsets."""
        return list(self._groups.get(group_id, ()))

    def of_topic(self, group_id: str, topic: str) -> list[tuple[int, int]]:
        """Return a group's partitions of a topic, and their offsets."""
        found = self._groups.get(group_id, {}).get(topic, {})
        return [(partition, packed >> _OFFSET_SHIFT) for partition, packed in found.items()]

    def count(self, group_id: str) -> int:
        """Return how many offsets a group has."""
        return sum(map(len, self._groups.get(group_id, {}).values()))

    def hand_over(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Note that somebody else has these partitions: what is committed by now is not theirs."""
        topics = self._groups.get(group_id)
        if topics is None:
            return
        for topic, partition in partitions:
            found = topics.get(topic)
            if found is not None and partition in found:
                found[partition] |= _IS_ANOTHERS

    def last(self, group_id: str, partitions: Iterable[tuple[str, int, int]]) -> LastCommit:
        """Return when the owner of these partitions last committed one of them.

        With each partition comes a time (Unix ms) before which it had somebody else, or 0.
        """
        topics = self._groups.get(group_id, {})
        last_ms, is_anothers = None, False
        for topic, partition, since_ms in partitions:
            packed = topics.get(topic, {}).get(partition)
            if packed is None:
                continue
            time_ms = packed & _TIME_MASK
            if packed & _IS_ANOTHERS or time_ms < since_ms:
                is_anothers = True
            elif last_ms is None or time_ms > last_ms:
                last_ms = time_ms
        return LastCommit(last_ms, is_anothers and last_ms is None)


def _unpacked(packed: int) -> Committed:
    return Committed(packed >> _OFFSET_SHIFT, packed & _TIME_MASK)
