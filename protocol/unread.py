"""Committed offsets that stay bytes until they are needed; most never are.

A reload has millions of them. The rows of one group and topic follow each other in key order, so
they are recognised by the prefix of their keys, and their values are not decoded.
"""

from __future__ import annotations

import struct
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from protocol.records import (
    RECORD_TYPES,
    BadRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    decode,
    encode_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Row: TypeAlias = "tuple[bytes, bytes | None]"
"""A record's key and value bytes; a value of None is a tombstone."""

PARTITION: Final = struct.Struct(">i")
"""The last field of an offset commit's key, the only one that varies in a group and topic."""

FIRST_VALUE: Final = bytes(2)
END_OF_VALUES: Final = (RECORD_TYPES[OffsetCommitKey].newest + 1).to_bytes(2, "big")
"""A value begins with its version (int16, big-endian): versions between these two are known."""

_ANY_KEY: Final = encode_key(OffsetCommitKey("", "", 0))


class TopicOffsets(MutableMapping[int, OffsetCommitValue]):
    """A group's committed offsets in one topic, by partition.

    ``stored`` may hold a value as the bytes of its record. It is decoded on access, which raises
    :class:`protocol.records.BadRecord` if it is invalid.
    """

    __slots__ = ("stored",)

    def __init__(self) -> None:
        self.stored: dict[int, OffsetCommitValue | bytes] = {}

    def __getitem__(self, partition: int) -> OffsetCommitValue:
        """Return a value, decoded; raise KeyError if there is none."""
        value = self.stored[partition]
        if isinstance(value, bytes):
            value = cast("OffsetCommitValue", decode(_ANY_KEY, value).value)
            self.stored[partition] = value
        return value

    def __setitem__(self, partition: int, value: OffsetCommitValue | bytes) -> None:
        """Store a value, decoded or not."""
        self.stored[partition] = value

    def __delitem__(self, partition: int) -> None:
        """Remove a value."""
        del self.stored[partition]

    def __iter__(self) -> Iterator[int]:
        """Iterate over the partitions in the order of their first commits."""
        return iter(self.stored)

    def __len__(self) -> int:
        """Return the number of partitions that have a value."""
        return len(self.stored)


def take_offset_commits(
    rows: Iterator[Row], prefix: bytes, into: TopicOffsets
) -> tuple[int, Row | None]:
    """Take rows while they are offsets of one group and topic; return their number, and the next.

    ``prefix`` is the key of such an offset without its :data:`PARTITION`. It includes the lengths
    of both names, so no other key begins with it. A tombstone or an unknown version also ends the
    run. Raises :class:`protocol.records.BadRecord`.
    """
    number, at, stored = PARTITION.unpack_from, len(prefix), into.stored
    first, end = FIRST_VALUE, END_OF_VALUES
    count = 0
    try:
        for key, value in rows:
            if value is None or not first <= value < end or not key.startswith(prefix):
                return count, (key, value)
            stored[number(key, at)[0]] = value
            count += 1
    except struct.error:
        raise BadRecord("an offset commit's key is too short to hold its partition") from None
    return count, None
