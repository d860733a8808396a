"""Kafka's compact types, for the few records that kio cannot encode, or not from arrays.

A string or an array is preceded by its length plus one as a varint; 0 is null.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

NULL: Final = b"\0"
NO_TAGS: Final = b"\0"
SMALL: Final = tuple(bytes([number]) for number in range(128))


def uvarint(value: int) -> bytes:
    """Encode a non-negative number."""
    if value < 128:
        return SMALL[value]
    parts = bytearray()
    while value >= 128:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def string(text: str | None) -> bytes:
    """Encode a string, or null."""
    if text is None:
        return NULL
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


@lru_cache(maxsize=16_384)
def name(text: str) -> bytes:
    """Encode a string that is encoded often, such as a topic's name; results are cached."""
    return string(text)


def names(texts: Sequence[str]) -> bytes:
    """Encode an array of such strings."""
    return uvarint(len(texts) + 1) + b"".join(map(name, texts))


def blob(data: bytes) -> bytes:
    """Encode bytes."""
    return uvarint(len(data) + 1) + data


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a non-negative number; return it and where it ends.

    Raises IndexError if the bytes end too early, or the number has more than five bytes.
    """
    value = data[at]
    at += 1
    if value < 128:
        return value, at
    value &= 127
    for shift in (7, 14, 21, 28):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise IndexError("a varint has more than five bytes")


def read_string(data: bytes, at: int) -> tuple[str, int]:
    """Decode a string (null as empty); return it and where it ends."""
    size, at = read_uvarint(data, at)
    end = at + max(size - 1, 0)
    return data[at:end].decode(), end
