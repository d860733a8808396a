"""Partitions as plain integers, so that sets of them are cheap.

A shard numbers the topic ids in its assignments, in the order of appearance. A partition of a topic
is then one integer: the topic's number in the upper bits, the partition's index in the lower 32.
The numbers are local to this process: they are in no record and no message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from protocol.groups.topics import Topics

Partition: TypeAlias = int
"""A topic's number << 32 | a partition's index."""

TOPIC_SHIFT: Final = 32
INDEX_MASK: Final = (1 << TOPIC_SHIFT) - 1
_NOT_ASKED: Final = ""


class TopicNumbers:
    """The topic ids seen so far: ``ids`` (16 bytes each) and ``uuids`` by number.

    ``numbers`` has the numbers by topic id: to be read only, where a call would cost too much.
    """

    __slots__ = ("_image", "_names", "ids", "numbers", "uuids")

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self.ids: list[bytes] = []
        self.uuids: list[UUID] = []
        self._image: Topics | None = None
        self._names: list[str | None] = []

    def number(self, topic_id: bytes) -> int:
        """Return the topic's number; a new topic gets the next one."""
        number = self.numbers.get(topic_id)
        if number is None:
            uuid = UUID(bytes=topic_id)  # first: it raises if the id is cut off
            number = self.numbers[topic_id] = len(self.ids)
            self.ids.append(topic_id)
            self.uuids.append(uuid)
        return number

    def known(self, topic_id: UUID | None) -> int | None:
        """Return the number of a topic that an assignment has had; None: no assignment has."""
        return None if topic_id is None else self.numbers.get(topic_id.bytes)

    def name(self, number: int, topics: Topics) -> str | None:
        """Return a topic's name, cached per topics image; None if the image lacks the topic."""
        if self._image is not topics:
            self._image, self._names = topics, []
        names = self._names
        if number >= len(names):
            names += [_NOT_ASKED] * (len(self.ids) - len(names))
        found = names[number]
        if found == _NOT_ASKED:
            topic = topics.by_id(self.uuids[number])
            found = names[number] = None if topic is None else topic.name
        return found


def by_topic(partitions: Iterable[Partition]) -> Iterator[tuple[int, list[int]]]:
    """Group partitions: (topic's number, indexes ascending), ordered by topic number."""
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
