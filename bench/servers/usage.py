"""What a process and its children use, sampled while they run."""

from __future__ import annotations

import threading
from typing import Final

from bench.servers.processes import cpu_seconds, descendants, resident_bytes

SAMPLE_SECONDS: Final = 0.25


class SampledUsage:
    """Samples on a thread until it is stopped; children may end in between."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.peak_bytes = 0
        self.cpu_seconds = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop; the figures stay."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(SAMPLE_SECONDS):
            pids = [self._pid, *descendants(self._pid)]
            self.peak_bytes = max(self.peak_bytes, resident_bytes(pids))
            self.cpu_seconds = max(self.cpu_seconds, cpu_seconds(pids))
