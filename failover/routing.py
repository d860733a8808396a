"""Which ``__consumer_offsets`` partition holds a group: Kafka's hash of its id."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

INT_MIN = -(1 << 31)


def java_string_hash(text: str) -> int:
    """Return what ``String.hashCode()`` returns in Java: over UTF-16 units, as a signed int32."""
    if text.isascii():
        units: Sequence[int] = text.encode("ascii")
    else:
        utf16 = text.encode("utf-16-be", "surrogatepass")
        units = struct.unpack(f">{len(utf16) // 2}H", utf16)
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@lru_cache(maxsize=1 << 16)
def partition_for(group_id: str, partitions: int) -> int:
    """Return the partition of a group; Kafka takes the hash ``Integer.MIN_VALUE`` as 0."""
    value = java_string_hash(group_id)
    return 0 if value == INT_MIN else abs(value) % partitions
