"""Wait for a condition by asking for it: one helper that blocks, one for an event loop."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

POLL_S: Final = 0.05
"""How long to pause between two asks."""


def poll(
    look: Callable[[], T],
    within_s: float,
    *,
    every_s: float = POLL_S,
    retry: tuple[type[Exception], ...] = (),
) -> T:
    """Call ``look`` until it returns something true; after ``within_s`` seconds return its last.

    An exception in ``retry`` counts as false. The last one is raised when the time is up.
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
            if found or is_last:
                return found
        time.sleep(every_s)


async def poll_async(look: Callable[[], T], within_s: float, *, every_s: float = POLL_S) -> T:
    """Do as :func:`poll` does, without blocking the event loop; ``look`` must not block it."""
    deadline_s = time.monotonic() + within_s
    while True:
        is_last = time.monotonic() > deadline_s
        found = look()
        if found or is_last:
            return found
        await asyncio.sleep(every_s)
