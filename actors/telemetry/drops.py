"""Counts what telemetry drops, and logs it at most once a minute."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

_log = logging.getLogger("rollcall.telemetry")
REPORT_EVERY_S: Final = 60.0


class TelemetryDrops:
    """Counters for any thread; ``facts`` and ``spans`` are the totals since the start.

    ``is_failing``: the last attempt to export spans has failed.
    """

    def __init__(self) -> None:
        self.facts = 0
        self.spans = 0
        self.why = ""
        self.is_failing = False
        self._reported = (0, 0)
        self._next_report_s = 0.0
        self._lock = threading.Lock()

    def count_facts(self, count: int) -> None:
        """Count facts that arrived too fast to be processed."""
        with self._lock:
            self.facts += count

    def count_spans(self, count: int, why: str = "") -> None:
        """Count spans that were not delivered; ``why`` is kept for the next report."""
        with self._lock:
            self.spans += count
            self.why = why or self.why

    def report(self, *, finally_: bool = False) -> None:
        """Log what was dropped since the last report, if a report is due."""
        with self._lock:
            now_s = time.monotonic()
            facts, spans = self.facts - self._reported[0], self.spans - self._reported[1]
            if not (facts or spans) or (now_s < self._next_report_s and not finally_):
                return
            self._reported = (self.facts, self.spans)
            self._next_report_s = now_s + REPORT_EVERY_S
            why, self.why = self.why, ""
        if facts:
            _log.warning("%d facts were dropped: they arrived too fast", facts)
        if spans:
            _log.warning("%d spans were not delivered%s", spans, f": {why}" if why else "")

    def next_report_in_s(self) -> float | None:
        """Return the time until the next report in seconds; None if there is nothing to report."""
        if (self.facts, self.spans) == self._reported:
            return None
        return max(self._next_report_s - time.monotonic(), 0.0)
