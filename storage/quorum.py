"""Majorities: pure arithmetic over the voters' end offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def majority(voters: int) -> int:
    """Return the size of a majority of ``voters``."""
    return voters // 2 + 1


def committed_offset(end_offsets: Iterable[int]) -> int:
    """Return the end offset that a majority of the voters has on disk.

    ``end_offsets`` holds one durable end offset per voter.
    """
    ordered = sorted(end_offsets, reverse=True)
    return ordered[majority(len(ordered)) - 1]
