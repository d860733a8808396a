"""Find the line of a setting in a TOML file.

The first lines of a file are TOML, too, unless they end within a value. So the setting begins
after the longest beginning of the file that lacks it. No parser but Python's is needed.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """Return the line, from 1, where the setting at ``path`` begins; None: it is not there."""
    lines = text.splitlines()
    without = 0
    for number in range(1, len(lines) + 1):
        try:
            table = tomllib.loads("\n".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue
        if _has(table, path):
            return without + 1
        without = number
    return None


def _has(table: Any, path: Sequence[str | int]) -> bool:
    for part in path:
        if isinstance(part, int):
            if not isinstance(table, list) or part >= len(table):
                return False
        elif not isinstance(table, dict) or part not in table:
            return False
        table = table[part]
    return True
