"""Find the line of a setting in a TOML file.

The file up to the end of a statement is TOML, too, and has the settings of all statements before.
So the first statement with which a setting is there is found by bisection, in a few parses.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[{]|[\]}]|\n',
    re.DOTALL,
)
"""What can contain the end of a line, or hide a bracket: texts and comments; and what remains."""


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """Return the line, from 1, where the setting at ``path`` of this TOML begins; None: nowhere."""
    ends = [0, *_ends(text)]
    number = bisect_left(
        range(1, len(ends)), True, key=lambda end: _has(tomllib.loads(text[: ends[end]]), path)
    )
    return None if number == len(ends) - 1 else text.count("\n", 0, ends[number]) + 1


def _ends(text: str) -> Iterator[int]:
    """Yield where each statement, empty line or line with a comment ends."""
    depth = 0
    for found in _TOKEN.finditer(text):
        if found[0] in "[{":
            depth += 1
        elif found[0] in "]}":
            depth -= 1
        elif found[0] == "\n" and not depth:
            yield found.end()
    if not text.endswith("\n"):
        yield len(text)


def _has(table: Any, path: Sequence[str | int]) -> bool:
    for part in path:
        if isinstance(part, int):
            if not isinstance(table, list) or part >= len(table):
                return False
        elif not isinstance(table, dict) or part not in table:
            return False
        table = table[part]
    return True
