"""Limits the rate of log lines that clients can cause."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

WINDOW_S: Final = 10.0
LINES_PER_WINDOW: Final = 5


class RateLimitedLog:
    """Logs the first few warnings of each window and only counts the others."""

    def __init__(
        self, log: logging.Logger, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._monotonic_s = monotonic_s
        self._window_began_s = float("-inf")
        self._said = 0
        self._unsaid = 0

    def warn(self, sentence: str) -> None:
        """Log a warning, unless there were many just now."""
        now_s = self._monotonic_s()
        if now_s - self._window_began_s > WINDOW_S:
            if self._unsaid:
                self._log.warning("%d more warnings like these were left out", self._unsaid)
            self._window_began_s, self._said, self._unsaid = now_s, 0, 0
        if self._said < LINES_PER_WINDOW:
            self._said += 1
            self._log.warning("%s", sentence)
        else:
            self._unsaid += 1
