"""Counts what telemetry drops, and logs it at most once a minute."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from actors.telemetry.trace_budget import TRACES_PER_S

_log = logging.getLogger("rollcall.telemetry")
REPORT_EVERY_S: Final = 60.0


class TelemetryDrops:
    """Counters for any thread; ``facts`` and ``spans`` are the totals since the start.

    ``unwritten`` traces were beyond the budget of the process's own file: nobody asked for them.
    ``is_failing``: the last attempt to export spans has failed.
    """

    def __init__(self) -> None:
        self.facts = 0
        self.spans = 0
        self.unwritten = 0
        self.why = ""
        self.is_failing = False
        self._reported = (0, 0, 0)
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

    def count_unwritten(self, count: int) -> None:
        """Count traces that the process's own file does not get."""
        with self._lock:
            self.unwritten += count

    def report(self, *, finally_: bool = False) -> None:
        """Log what was dropped since the last report, if a report is due."""
        with self._lock:
            now_s = time.monotonic()
            totals = (self.facts, self.spans, self.unwritten)
            news = [total - known for total, known in zip(totals, self._reported, strict=True)]
            if not any(news) or (now_s < self._next_report_s and not finally_):
                return
            self._reported = totals
            self._next_report_s = now_s + REPORT_EVERY_S
            why, self.why = self.why, ""
        facts, spans, unwritten = news
        if facts:
            _log.warning("%d facts were dropped: they arrived too fast", facts)
        if spans:
            _log.warning("%d spans were not delivered%s", spans, f": {why}" if why else "")
        if unwritten:
            _log.info(
                "%d rebalances have no trace: the own file takes %d a second",
                unwritten,
                TRACES_PER_S,
            )

    def next_report_in_s(self) -> float | None:
        """Return the time until the next report in seconds; None if there is nothing to report."""
        if (self.facts, self.spans, self.unwritten) == self._reported:
            return None
        return max(self._next_report_s - time.monotonic(), 0.0)
