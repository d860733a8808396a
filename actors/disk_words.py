"""What a coordinator says of its disk, in words: for the command line and for the console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")
STEP: Final = 1_024
WHOLE: Final = 10
"""From so many of a unit on, no tenths are said."""


def in_units(size_bytes: float) -> str:
    """Return a size in the largest unit of which it has one."""
    size, unit = size_bytes, 0
    while size >= STEP and unit < len(UNITS) - 1:
        size, unit = size / STEP, unit + 1
    digits = 0 if unit == 0 or size >= WHOLE else 1
    return f"{size:.{digits}f} {UNITS[unit]}"


def disk_words(disk: Mapping[str, int]) -> str:
    """Return the size of a log and the room on its disk; "" if nothing was measured."""
    if not disk:
        return ""
    free, total = in_units(disk["free_bytes"]), in_units(disk["total_bytes"])
    words = f"log {in_units(disk['log_bytes'])}, {free} of {total} free"
    count = disk["set_aside"]
    if count:
        words += f", {count} {'log' if count == 1 else 'logs'} set aside"
    return words
