"""Align cells of text in columns; commands, drills and benchmarks print all tables with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def aligned(lines: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Return ``lines`` with their cells aligned in columns, two spaces apart.

    Columns are left-aligned; those in ``right`` (numbers from 0) are right-aligned. A wide
    character, such as a Chinese one, counts as two columns, as on a terminal. A cell is one line of
    text.
    """
    columns = max(map(len, lines), default=0)
    sides = ["right" if column in right else "left" for column in range(columns)]
    text = tabulate(
        lines, tablefmt="plain", disable_numparse=True, colalign=sides, preserve_whitespace=True
    )
    return "\n".join(line.rstrip() for line in text.split("\n"))
