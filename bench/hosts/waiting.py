"""Wait for what hosts and their programs do, with a deadline."""

import os
from collections.abc import Callable
from typing import Final, TypeVar

from actors.waiting import poll

T = TypeVar("T")

PATIENCE: Final = float(os.environ.get("ROLLCALL_TESTS_PATIENCE", "1"))
"""How much longer than alone: `make test` runs several tests side by side (``.ci/parts.py``)."""

WITHIN_S: Final = 30.0 * PATIENCE
"""The deadline of what takes a moment, on a machine that has much else to do."""

PAUSE_S: Final = 0.02


def patient(seconds: float) -> float:
    """Return the deadline of what takes less than ``seconds`` alone."""
    return seconds * PATIENCE


class HostError(Exception):
    """A host, or what runs on it, did not do what it must; the message says what."""


def until(condition: Callable[[], T], within_s: float, what: str) -> T:
    """Ask ``condition`` until it holds and return its result.

    ``what`` completes the sentence "within 5 s: ...". Raises :class:`HostError` after ``within_s``
    seconds: :func:`patient` makes it longer where many tests run, which a requirement must not be.
    """
    found = poll(condition, within_s, every_s=PAUSE_S)
    if not found:
        raise HostError(f"not within {within_s:g} s: {what}; last seen: {found!r}")
    return found
