"""Syncs a coordinator's log in a thread, so that the event loop continues meanwhile.

One sync is in progress at a time; the next one covers everything written before it starts. So a
slow disk makes larger batches and not a longer queue.
"""

from __future__ import annotations

import logging
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Protocol

from actors.telemetry.metrics import Samples

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from storage.disk.wal_sync import PendingSync
    from storage.log import Write

_log = logging.getLogger("rollcall.coordinator")

CLOSE_S: Final = 10.0
"""How long to wait for the current sync when the log is closed."""

SLOW_MS: Final = 100.0
"""A slower sync is logged, at most once a minute."""

TELL_S: Final = 60.0
SAMPLES_MAX: Final = 1_000


class SyncedLog(Protocol):
    """A log that can be synced from a thread (:class:`storage.disk.rocks.RocksLog`)."""

    def write(self, writes: Sequence[Write], sync: bool) -> None:
        """Write as one atomic unit."""

    def begin_sync(self) -> PendingSync:
        """Return a sync of everything written so far."""

    def end_sync(self, sync: PendingSync) -> None:
        """Record that a sync is done."""


class LogSync:
    """One coordinator's syncs. All methods are called on the event loop."""

    def __init__(
        self,
        log: SyncedLog,
        loop: asyncio.AbstractEventLoop,
        done: Callable[[], None],
        failed: Callable[[OSError], None],
    ) -> None:
        """``done`` or ``failed`` is called on the loop when a sync ends."""
        self.delay_ms = 0
        """For drills: a delay for every sync."""

        self.took: Callable[[float], None] = lambda _: None
        """Is told the seconds that each sync took."""

        self._log = log
        self._loop = loop
        self._done = done
        self._failed = failed
        self._took_ms = Samples(samples_max=SAMPLES_MAX)
        self._began_s: float | None = None
        self._told_s = -TELL_S
        self._queue: SimpleQueue[PendingSync | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="log sync", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Start a sync; none may be in progress."""
        assert self._began_s is None, "one sync at a time"
        self._began_s = time.monotonic()
        self._queue.put(self._log.begin_sync())

    def close(self) -> None:
        """End the thread after the current sync, without callbacks."""
        self._began_s = None
        self._queue.put(None)
        self._thread.join(CLOSE_S)

    def status(self) -> dict[str, float]:
        """Return the median and maximum duration of syncs in the last minute, in ms.

        The current sync counts with its time so far, so a hanging disk is visible.
        """
        measured = self._took_ms.percentiles()
        under_way = 0.0 if self._began_s is None else 1000 * (time.monotonic() - self._began_s)
        longest = max(measured["max"], under_way)
        return {"p50": round(measured["p50"], 1), "max": round(longest, 1)}

    def _work(self) -> None:
        """Run in the thread."""
        while (sync := self._queue.get()) is not None:
            error = None
            try:
                sync.run()
                if self.delay_ms:
                    time.sleep(self.delay_ms / 1000)
            except OSError as failure:
                error = failure
            self._loop.call_soon_threadsafe(self._ended, sync, error)

    def _ended(self, sync: PendingSync, error: OSError | None) -> None:
        began_s, self._began_s = self._began_s, None
        if began_s is None:
            return  # closed meanwhile
        if error is not None:
            self._failed(error)
            return
        took_ms = 1000 * (time.monotonic() - began_s)
        self._took_ms.add(took_ms)
        self.took(took_ms / 1000)
        self._log.end_sync(sync)
        if took_ms > SLOW_MS and time.monotonic() - self._told_s >= TELL_S:
            self._told_s = time.monotonic()
            _log.warning("the disk is slow: a sync of the log took %d ms", took_ms)
        self._done()
