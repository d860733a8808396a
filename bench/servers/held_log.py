"""Keep a node of ours away: what Ray starts again cannot open its log while we hold the lock.

RocksDB takes a lock on a file of the log's directory; a coordinator that does not get it serves
nobody, and tries again after some seconds (:mod:`actors.coordinator.log_opening`).
"""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING, Final

from actors.waiting import poll
from failover.drills.checked import DrillError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

LOCK: Final = "LOCK"
"""The file of RocksDB's lock."""

WITHIN_S: Final = 10.0
EVERY_S: Final = 0.005
"""How often the lock is tried: a process that starts needs longer until it opens its log."""


class HeldLog:
    """The log of a node whose process has ended or is about to, and which nobody may open."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: IO[bytes] | None = None

    def hold(self) -> None:
        """Take the lock, once the node's process is gone; raises DrillError."""
        self._file = (self._directory / LOCK).open("r+b")
        if not poll(self._is_taken, WITHIN_S, every_s=EVERY_S):
            self.release()
            raise DrillError(f"The log in {self._directory} is still open: its node did not end.")

    def release(self) -> None:
        """Let the node open its log again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _is_taken(self) -> bool:
        assert self._file is not None
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True
