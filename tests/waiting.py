"""Wait for a condition by asking for it, never by sleeping for a guessed time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from actors.waiting import poll
from bench.hosts.waiting import PATIENCE, patient

__all__ = ("PATIENCE", "patient")

T = TypeVar("T")

PAUSE_S = 0.02

WITHIN_S = 30.0 * PATIENCE
"""The deadline of a condition that holds in a moment, on a machine that has much else to do.

It is waited for only by a test that fails. A house rule refuses shorter ones.
"""

SESSION_MS = int(10_000 * min(PATIENCE, 3))
"""The session of a member whose end may have to be waited for, because it may not say goodbye.

It outlasts a machine that stands still, and ends well within WITHIN_S.
"""

LONG_SESSION_MS = 300_000
"""The session of a member that nobody waits for: one that is static, or that always says goodbye.

Not longer than clients may be without a poll (``max.poll.interval.ms``): some demand that.
"""


def until(condition: Callable[[], T], deadline_s: float, what: str) -> T:
    """Ask ``condition`` until it holds and return what it said; fail after ``deadline_s`` seconds.

    ``what`` completes the sentence "within 5 s: ...". A condition that talks to a client may block
    a little by itself; the pause between two asks is short. No deadline is shorter than WITHIN_S.
    """
    deadline_s = max(deadline_s, WITHIN_S)
    said = poll(condition, deadline_s, every_s=PAUSE_S)
    if not said:
        raise AssertionError(f"not within {deadline_s:g} s: {what}; last seen: {said!r}")
    return said


async def until_async(condition: Callable[[], Awaitable[T]], deadline_s: float, what: str) -> T:
    """Do as :func:`until` does, without blocking the event loop."""
    deadline_s = max(deadline_s, WITHIN_S)
    end = time.monotonic() + deadline_s
    while True:
        is_last = time.monotonic() > end  # a machine that stood still in between is asked once more
        said = await condition()
        if said:
            return said
        if is_last:
            raise AssertionError(f"not within {deadline_s:g} s: {what}; last seen: {said!r}")
        await asyncio.sleep(PAUSE_S)
