"""Sentences of verdicts that are bounded: the first ones, and how many more there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

FAULTS_MAX: Final = 10
"""Faults that are told in one sentence."""


def first_of(sentences: Sequence[str], most: int, what: str) -> list[str]:
    """Return at most so many sentences, and one that says how many more of ``what`` there are."""
    more = len(sentences) - most
    return [*sentences[:most], *([f"And {more:,} more {what}."] if more > 0 else [])]


def faults_said(faults: Sequence[tuple[int, str]]) -> str:
    """Say which faults there were, and when (in milliseconds); "" if there was none."""
    if not faults:
        return ""
    said = [f"{text} at {at_ms / 1000:.4g} s" for at_ms, text in faults[:FAULTS_MAX]]
    more = len(faults) - FAULTS_MAX
    return f"Faults: {'; '.join([*said, *([f'and {more} more'] if more > 0 else [])])}."
