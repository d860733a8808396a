"""Work that goes on beside the turns of an event loop; what fails in it is told."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

_log = logging.getLogger("rollcall.coordinator")


class Tasks:
    """Keeps tasks alive until they end (asyncio itself does not)."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def cancel(self) -> None:
        """Cancel all that has not ended."""
        for task in self._tasks:
            task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        with suppress(asyncio.CancelledError):
            if error := task.exception():
                _log.error("a background task failed", exc_info=error)
