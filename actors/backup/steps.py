"""How far the making of a backup, or of data from one, is: for who wants to show it."""

from __future__ import annotations


def unheard(_done: int, _total: int) -> None:
    """Take note of so many partitions of all; nobody wants to know."""
