"""Cells as lines of text in columns: the one table printer of commands, drills and benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def aligned(lines: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Return ``lines`` with their cells in columns, two blanks between them.

    Columns are aligned to the left, those of ``right`` (numbers from 0) to the right. A wide
    character, as of Chinese, counts as the two columns that a terminal gives it. A cell is one
    line of text.
    """
    columns = max(map(len, lines), default=0)
    sides = ["right" if column in right else "left" for column in range(columns)]
    text = tabulate(
        lines, tablefmt="plain", disable_numparse=True, colalign=sides, preserve_whitespace=True
    )
    return "\n".join(line.rstrip() for line in text.split("\n"))
