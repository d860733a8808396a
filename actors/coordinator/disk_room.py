"""How large a coordinator's log is, and how much room its disk has: measured on a thread.

A measurement begins when somebody asks, at most every few seconds; the answer is that of the last.
So neither a request nor the event loop ever waits for the disk.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.clock import boot_ms
from storage.disk.directory import asides

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

MEASURE_MS: Final = 5_000
FILES_MAX: Final = 100_000
"""A directory with more files is measured only so far."""


def measure(directory: Path) -> dict[str, int]:
    """Return the size of a log, the room on its disk, and how many logs were set aside beside it.

    Raises OSError.
    """
    room = os.statvfs(directory)
    return {
        "log_bytes": _size(directory),
        "free_bytes": room.f_bavail * room.f_frsize,
        "total_bytes": room.f_blocks * room.f_frsize,
        "set_aside": len(asides(directory)),
    }


def _size(directory: Path) -> int:
    """Return the size of the files in a directory; of those that are there."""
    size_bytes = count = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            count += 1
            if count > FILES_MAX:
                break
            try:
                if entry.is_file(follow_symlinks=False):
                    size_bytes += entry.stat(follow_symlinks=False).st_size
            except OSError:
                continue  # RocksDB has deleted it
    return size_bytes


class DiskRoom:
    """The last measurement of one log. All methods are called on the event loop."""

    def __init__(
        self,
        directory: Path,
        loop: asyncio.AbstractEventLoop,
        clock_ms: Callable[[], int] = boot_ms,
    ) -> None:
        self._directory = directory
        self._loop = loop
        self._clock_ms = clock_ms
        self._found: dict[str, int] = {}
        self._measuring: asyncio.Future[dict[str, int]] | None = None
        self._due_ms = 0

    def status(self) -> dict[str, int]:
        """Return what was measured last; empty: nothing yet. Measure again if that is due."""
        now = self._clock_ms()
        if self._measuring is None and now >= self._due_ms:
            self._due_ms = now + MEASURE_MS
            self._measuring = self._loop.run_in_executor(None, measure, self._directory)
            self._measuring.add_done_callback(self._measured)
        return self._found

    def _measured(self, measuring: asyncio.Future[dict[str, int]]) -> None:
        """Keep the result; while a disk cannot be read, nothing is known of it."""
        self._measuring = None
        if not measuring.cancelled():
            self._found = measuring.result() if measuring.exception() is None else {}
