"""Estimate how many bytes of memory an object takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

OBJECT_BYTES: Final = 64
BUFFERS: Final = ("buffer", "ends")
"""The fields that hold most of the bytes of a FlatTargets."""


def size_of(value: Any) -> int:
    """Add up an object and all that it refers to; repeated references count each time."""
    if isinstance(value, str | bytes | bytearray):
        return OBJECT_BYTES + len(value)
    if hasattr(value, BUFFERS[0]):
        return OBJECT_BYTES * (1 + len(value)) + sum(
            memoryview(getattr(value, name)).nbytes for name in BUFFERS
        )
    parts: Iterable[Any] = ()
    if isinstance(value, Mapping):
        parts = chain(value, value.values())
    elif isinstance(value, Sequence | Set):
        parts = value
    elif is_dataclass(value):
        parts = [getattr(value, each.name) for each in fields(value)]
    return OBJECT_BYTES + sum(map(size_of, parts))
