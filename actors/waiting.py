"""Wait for a condition by polling: one helper that blocks, one for an event loop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

POLL_S: Final = 0.05
"""The pause between two polls."""


def poll(
    look: Callable[[], T],
    within_s: float,
    *,
    is_done: Callable[[Any], object] = bool,
    every_s: float = POLL_S,
    retry: tuple[type[Exception], ...] = (),
) -> T:
    """Call ``look`` until ``is_done`` accepts the result; after ``within_s`` return the last one.

    An exception in ``retry`` leads to another call, and is raised when the time is up.
    """
    deadline_s = time.monotonic() + within_s
    while True:
        is_last = time.monotonic() > deadline_s
        try:
            found = look()
        except retry:
            if is_last:
                raise
        else:
            if is_last or is_done(found):
                return found
        time.sleep(every_s)


async def poll_async(
    look: Callable[[], T],
    within_s: float,
    *,
    is_done: Callable[[Any], object] = bool,
    every_s: float = POLL_S,
) -> T:
    """Do the same as :func:`poll` without blocking the event loop; ``look`` must not block it."""
    import asyncio  # programs that only use ``poll`` start without it

    deadline_s = time.monotonic() + within_s
    while True:
        is_last = time.monotonic() > deadline_s
        found = look()
        if is_last or is_done(found):
            return found
        await asyncio.sleep(every_s)


def is_answered(_found: object) -> bool:
    """Accept every result of ``look``: only its exceptions lead to another call."""
    return True
