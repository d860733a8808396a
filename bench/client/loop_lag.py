"""Measures stalls of a load client, which distort its measurements."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

LOOK_S: Final = 0.01


class LoopLag:
    """Measures the delay of a timer on its event loop; use it on that loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stalls: list[tuple[int, int]] = []
        self._due_ms = _now_ms()
        self._look()

    def longest_ms(self, since_ms: int) -> int:
        """Return the longest stall that ended after ``since_ms`` (Unix time), in milliseconds."""
        return max((stall for at_ms, stall in self._stalls if at_ms >= since_ms), default=0)

    def _look(self) -> None:
        now_ms = _now_ms()
        if (stall := now_ms - self._due_ms) > 0:
            while self._stalls and self._stalls[-1][1] <= stall:
                self._stalls.pop()  # whoever asks for it gets this later and longer one
            self._stalls.append((now_ms, stall))
        self._due_ms = now_ms + round(LOOK_S * 1000)
        self._loop.call_later(LOOK_S, self._look)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
