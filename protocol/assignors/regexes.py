"""Matches topics with regular expressions by RE2: linear in the text for any expression.

KIP-848 requires RE2's syntax, and that the whole name matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import re2

if TYPE_CHECKING:
    from collections.abc import Sequence


def matching_topics(regexes: Sequence[str], topics: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the topics that match each expression, sorted; an invalid one matches nothing."""
    names = sorted(topics)
    return {regex: _matching(regex, names) for regex in regexes}


def why_invalid(regex: str) -> str | None:
    """Return what is wrong with an expression; None if it is valid."""
    try:
        re2.compile(regex, _options())
    except re2.error as error:
        return str(error)
    return None


def _matching(regex: str, names: Sequence[str]) -> tuple[str, ...]:
    try:
        compiled = re2.compile(regex, _options())
    except re2.error:
        return ()
    return tuple(name for name in names if compiled.fullmatch(name))


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options
