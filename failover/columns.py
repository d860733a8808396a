"""Align cells of text in columns; commands, drills and benchmarks print all tables with it."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from tabulate import tabulate
from wcwidth import wcswidth, wcwidth

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

GAP: Final = 2
"""Spaces between two columns."""

LEFT_OUT: Final = "..."
"""What stands for the part of a text that does not fit."""

LEAST: Final = 7
"""A column of text is not made narrower: two characters at each side of what is left out."""

NUMBER: Final = re.compile(r"[-+.,:%/\dTZ]*")
"""Numbers, lists of them, and times: these are always shown in full."""


def aligned(
    lines: Sequence[Sequence[str]], right: Collection[int] = (), width: int | None = None
) -> str:
    """Return ``lines`` with their cells aligned in columns, two spaces apart.

    Columns are left-aligned; those in ``right`` (numbers from 0) are right-aligned. A wide
    character, such as a Chinese one, counts as two columns, as on a terminal. A cell is one line of
    text.

    With a ``width``, lines are fitted into so many columns: first the words of the header, which is
    the first line, are put below each other; then the widest columns are shortened, and ``...``
    shows where. Columns of numbers and times are never shortened. If that is not enough, the lines
    are longer.
    """
    lines = lines if width is None else _fitted(lines, width)
    columns = max(map(len, lines), default=0)
    sides = ["right" if column in right else "left" for column in range(columns)]
    text = tabulate(
        lines, tablefmt="plain", disable_numparse=True, colalign=sides, preserve_whitespace=True
    )
    return "\n".join(line.rstrip() for line in text.split("\n"))


def shortened(text: str, width: int) -> str:
    """Return a text that is at most so many columns wide.

    Of several words the first ones are shown, of one its begin and its end: ids often differ there.
    """
    if _wide(text) <= width:
        return text
    room = max(width - len(LEFT_OUT), 0)
    tail = "" if " " in text else _first(reversed(text), room // 2)[::-1]
    return f"{_first(text, room - _wide(tail))}{LEFT_OUT}{tail}"


def _first(text: Iterable[str], width: int) -> str:
    """Return the first characters that fit."""
    found = ""
    for each in text:
        width -= max(wcwidth(each), 0)
        if width < 0:
            break
        found += each
    return found


def _wide(text: str) -> int:
    return max(map(wcswidth, text.split("\n")), default=0)


def _fitted(lines: Sequence[Sequence[str]], width: int) -> Sequence[Sequence[str]]:
    if not lines or _too_much(_widths(lines), width) <= 0:
        return lines
    header, *rows = lines
    cells = [*_widths(rows), *[0] * len(header)]
    lines = [[_broken(name, cells[at]) for at, name in enumerate(header)], *rows]
    widths = _widths(lines)
    for column, most in enumerate(_narrowed(widths, _texts(rows), width)):
        if most < widths[column]:
            lines = [_with(line, column, most) for line in lines]
    return lines


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(_wide, column)) for column in zip_longest(*lines, fillvalue="")]


def _texts(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the columns that hold more than numbers and times."""
    columns = enumerate(zip_longest(*rows, fillvalue=""))
    return [at for at, cells in columns if not all(map(NUMBER.fullmatch, cells))]


def _too_much(widths: Sequence[int], width: int) -> int:
    return sum(widths) + GAP * (len(widths) - 1) - width


def _narrowed(widths: Sequence[int], texts: Sequence[int], width: int) -> list[int]:
    """Return the widths of columns after the widest columns of text have given way."""
    found = list(widths)
    for _ in range(_too_much(widths, width)):
        widest = max(texts, key=lambda at: found[at], default=None)
        if widest is None or found[widest] <= LEAST:
            break
        found[widest] -= 1
    return found


def _broken(name: str, width: int) -> str:
    """Put the words of a header below each other, as far as its cells are narrower."""
    found = ""
    for word in re.findall(r"[^- ]+[- ]*|[- ]+", name):
        last = found.rpartition("\n")[2]
        fits = _wide(f"{last}{word}".rstrip()) <= width
        found += word if fits or not found else f"\n{word}"
    return "\n".join(line.rstrip(" ") for line in found.split("\n"))


def _with(line: Sequence[str], column: int, width: int) -> Sequence[str]:
    if column >= len(line):
        return line
    short = "\n".join(shortened(each, width) for each in line[column].split("\n"))
    return [*line[:column], short, *line[column + 1 :]]
