"""Tables that several modules fill: one mapping, and an error where two claim the same key."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


def merged(*tables: Mapping[K, V]) -> Mapping[K, V]:
    """Join tables into one that cannot be changed. Raises ValueError for a key of two tables."""
    whole: dict[K, V] = {}
    for table in tables:
        twice = whole.keys() & table.keys()
        if twice:
            raise ValueError(f"two tables have rows for {sorted(map(str, twice))}")
        whole.update(table)
    return MappingProxyType(whole)
