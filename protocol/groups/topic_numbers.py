"""Partitions as plain integers, so that sets of them are cheap.

A shard numbers the topic ids that its assignments name, in the order it meets them. A partition of
a topic is then one integer: the topic's number in the upper bits, the partition's index in the
lower 32. The numbers are nobody's business but this process's: no record and no message has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Partition: TypeAlias = int
"""A topic's number << 32 | a partition's index."""

TOPIC_SHIFT: Final = 32
INDEX_MASK: Final = (1 << TOPIC_SHIFT) - 1


class TopicNumbers:
    """The topic ids met so far: ``ids`` (16 bytes each) and ``uuids`` by number."""

    __slots__ = ("_numbers", "ids", "uuids")

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self.ids: list[bytes] = []
        self.uuids: list[UUID] = []

    def number(self, topic_id: bytes) -> int:
        """Give the topic's number; a new topic gets the next one."""
        number = self._numbers.get(topic_id)
        if number is None:
            number = self._numbers[topic_id] = len(self.ids)
            self.ids.append(topic_id)
            self.uuids.append(UUID(bytes=topic_id))
        return number

    def known(self, topic_id: UUID | None) -> int | None:
        """Give the number of a topic that some assignment has named; None: none has."""
        return None if topic_id is None else self._numbers.get(topic_id.bytes)


def by_topic(partitions: Iterable[Partition]) -> Iterator[tuple[int, list[int]]]:
    """Group partitions: (topic's number, indexes ascending), topics in the order of numbers."""
    current = -1
    indexes: list[int] = []
    for partition in sorted(partitions):
        topic = partition >> TOPIC_SHIFT
        if topic != current:
            if indexes:
                yield current, indexes
            current, indexes = topic, []
        indexes.append(partition & INDEX_MASK)
    if indexes:
        yield current, indexes
