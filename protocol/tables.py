"""Merges tables of several modules: one mapping, and an error for a key that two of them claim."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


def merged(*tables: Mapping[K, V]) -> Mapping[K, V]:
    """Merge tables into an immutable one. Raises ValueError for a key of two tables."""
    whole: dict[K, V] = {}
    for table in tables:
        twice = whole.keys() & table.keys()
        if twice:
            raise ValueError(f"two tables have rows for {sorted(map(str, twice))}")
        whole.update(table)
    return MappingProxyType(whole)
