"""Rows of text in aligned columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.sentences import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NOTHING: Final = "-"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Align columns to the left; what is None or empty is shown as ``-``."""
    lines = [tuple(header), *(tuple(_cell(value) for value in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    return NOTHING if value is None or value == "" else plain(str(value))
