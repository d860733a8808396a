"""Sentences of verdicts that are bounded: the first ones, and how many more there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

CHARACTERS_MAX: Final = 65_536
"""A comment of a pull request has room for so many characters."""

FAULTS_MAX: Final = 10
"""Faults that are told in one sentence."""


def first_of(sentences: Sequence[str], most: int, what: str) -> list[str]:
    """Return at most so many sentences, and one that says how many more of ``what`` there are."""
    more = len(sentences) - most
    return [*sentences[:most], *([f"And {more:,} more {what}."] if more > 0 else [])]


def listed(words: Sequence[str], most: int, between: str = "; ") -> str:
    """Return at most so many of these in a row, and how many more there are."""
    more = len(words) - most
    return between.join([*words[:most], *([f"and {more} more"] if more > 0 else [])])


def faults_said(faults: Sequence[tuple[int, str]]) -> str:
    """Say which faults there were, and when (in milliseconds); "" if there was none."""
    said = [f"{text} at {at_ms / 1000:.4g} s" for at_ms, text in faults]
    return f"Faults: {listed(said, FAULTS_MAX)}." if said else ""


def fitting(lines: Sequence[str], characters_max: int = CHARACTERS_MAX) -> str:
    """Return the first lines of a text for which there is room; the last one counts the others."""
    text = "\n".join(lines) + "\n"
    if len(text) < characters_max:
        return text
    room = characters_max - len(_left_out(len(lines))) - 1
    count = 0
    for line in lines:
        room -= len(line) + 1
        if room <= 0:
            break
        count += 1
    return "\n".join([*lines[:count], _left_out(len(lines) - count)])


def _left_out(count: int) -> str:
    return f"\n{count:,} more lines are left out: there is no room for them.\n"
