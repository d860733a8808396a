"""The hash of strings in Java: Kafka's coordinators are found by it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

INT_MIN: Final = -(1 << 31)


def java_string_hash(text: str, begun: int = 0) -> int:
    """Return what ``String.hashCode()`` returns in Java: over UTF-16 units, as a signed int32.

    ``begun`` is the hash of the text before, if there is any.
    """
    if text.isascii():
        units: Sequence[int] = text.encode("ascii")
    else:
        utf16 = text.encode("utf-16-be", "surrogatepass")
        units = struct.unpack(f">{len(utf16) // 2}H", utf16)
    value = begun & 0xFFFFFFFF
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
