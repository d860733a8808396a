"""Committed offsets that stay bytes until somebody asks for them; most never are.

A reload has millions of them to go through, so the rows of one group and topic, which follow each
other in key order, are told by the beginning of their keys, and their values are not looked at.
"""

from __future__ import annotations

import struct
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from protocol.records import BadRecord, OffsetCommitKey, OffsetCommitValue, decode, encode_key

if TYPE_CHECKING:
    from collections.abc import Iterator

Row: TypeAlias = "tuple[bytes, bytes | None]"
"""A record's key and value bytes; a value of None is a tombstone."""

PARTITION: Final = struct.Struct(">i")
"""The last field of an offset commit's key: what differs between those of one group and topic."""

FIRST_VALUE: Final = b"\0\0"
END_OF_VALUES: Final = b"\0\5"
"""A value begins with its version (int16, big-endian): from 0 to 4 they are known."""

_NAMES: Final = tuple(column.name for column in fields(OffsetCommitValue))
_ANY_KEY: Final = encode_key(OffsetCommitKey("", "", 0))


class UnreadOffsetCommit(OffsetCommitValue):
    """An :class:`OffsetCommitValue` that is read at the first look at a field, and equal to it."""

    __slots__ = ("_unread",)
    _unread: bytes

    def __getattr__(self, name: str) -> Any:
        """Read all fields; Python comes here when one has no value yet."""
        if name not in _NAMES:
            raise AttributeError(name)
        value = decode(_ANY_KEY, self._unread).value
        for each in _NAMES:
            object.__setattr__(self, each, getattr(value, each))
        _fill(self, b"")
        return getattr(self, name)

    def __eq__(self, other: object) -> bool:
        """Compare as the dataclass does, which wants both of the very same class."""
        if not isinstance(other, OffsetCommitValue):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _NAMES)

    def __hash__(self) -> int:
        """Hash as the dataclass does: equal values have equal hashes."""
        return hash(tuple(getattr(self, name) for name in _NAMES))


_new: Final = object.__new__
_fill: Final[Any] = UnreadOffsetCommit.__dict__["_unread"].__set__


def take_offset_commits(
    rows: Iterator[Row], prefix: bytes, into: dict[int, OffsetCommitValue]
) -> tuple[int, Row | None]:
    """Take rows as long as they are offsets of one group and topic; return how many, and the next.

    ``prefix`` is the key of such an offset without its :data:`PARTITION`. As it holds the lengths
    of both names, no other key begins with it. A tombstone or an unknown version ends it, too.
    Raises :class:`protocol.records.BadRecord`.
    """
    number, at = PARTITION.unpack_from, len(prefix)
    new, fill, unread = _new, _fill, UnreadOffsetCommit
    first, end = FIRST_VALUE, END_OF_VALUES
    count = 0
    try:
        for row in rows:
            key, value = row
            if value is None or not first <= value < end or not key.startswith(prefix):
                return count, row
            committed = new(unread)
            fill(committed, value)
            into[number(key, at)[0]] = committed
            count += 1
    except struct.error:
        raise BadRecord("an offset commit's key is too short to hold its partition") from None
    return count, None
