"""Work that comes in a burst, done a little at a time: timers and sockets get turns in between."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PER_TURN: Final = 8
"""Pieces of work in one turn of the event loop: a few milliseconds."""


class PacedWork:
    """Does pieces of work in order, :data:`PER_TURN` in each turn of the running event loop.

    When a node dies, thousands of members lose their connection in one turn. What each does then
    must not make the requests of all others late.
    """

    def __init__(self) -> None:
        self._left: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def add(self, piece: Callable[[], None]) -> None:
        """Do a piece of work in one of the next turns."""
        self._left.append(piece)
        self._schedule()

    def end(self) -> None:
        """Forget what is left to do."""
        self._left.clear()

    def _schedule(self) -> None:
        if self._left and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        try:
            for _ in range(min(PER_TURN, len(self._left))):
                self._left.popleft()()
        finally:
            self._schedule()
