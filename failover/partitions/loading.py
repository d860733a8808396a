"""Build a partition's machine from the log, in slices, and keep the state on disk current."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from storage.snapshot import Compactor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.batch import Batch, RawRecord
    from storage.log import Log, Write
    from storage.replica import Replica


class Loading:
    """Reads one partition: its compacted state, then the committed batches after it.

    Records replayed from batches are gathered for the state again, so no record between the two is
    lost. ``offset`` is where the batches read so far end. While ``is_blocked`` the state on disk is
    being replaced and must be neither read nor written.
    """

    def __init__(self, number: int, log: Log) -> None:
        self.is_blocked = False
        self.offset = 0
        self.compactor = Compactor(number, log.stored(number))
        self._number = number
        self._log = log
        self._records: Iterator[RawRecord] | None = None
        self._is_open = False

    def begin(self) -> None:
        """Restart, with the next :meth:`records`: call it when what was drained is written."""
        self._records, self._is_open = None, False

    def records(self, replica: Replica) -> Iterator[RawRecord]:
        """Return the one iterator over the committed records that are still to be read."""
        if not self._is_open:
            self._open()
            self._records = chain(self._log.state(self._number), self._tail(replica))
        elif self._records is None:
            self._records = self._tail(replica)
        assert self._records is not None
        return self._records

    def has_all(self, replica: Replica) -> bool:
        """Whether everything committed was read; if not, :meth:`records` continues."""
        self._records = None
        return self.offset >= min(replica.high_watermark, replica.end_offset)

    def appended(self, batch: Batch) -> None:
        """Note a batch on its way to the log; before the log is open, the batch is found there."""
        if self._is_open:
            self.compactor.hold(batch)

    def committed(self, batch: Batch) -> None:
        """Note a batch that was committed after loading, so it is not read here."""
        if batch.end_offset > self.offset:
            self.offset = batch.end_offset
            self.compactor.add(batch)

    def truncated(self, offset: int) -> None:
        """Note that the batches from ``offset`` on are being removed from the log."""
        if self._is_open:
            self.compactor.truncate(offset)

    def writes(self) -> list[Write]:
        """Return the writes that update the state on disk to the last batch gathered."""
        return self.compactor.writes() if self._is_open and not self.is_blocked else []

    def _open(self) -> None:
        stored = self._log.stored(self._number)
        self.compactor = Compactor(self._number, stored)
        for batch in self._log.batches(self._number, 0):
            self.compactor.hold(batch)
        self.offset = stored.applied_offset
        self._is_open = True

    def _tail(self, replica: Replica) -> Iterator[RawRecord]:
        """Read committed batches, from the log as of the start of the reading.

        Later commits may have replaced what this iteration would still find: look those up in the
        current log.
        """
        while True:
            high_watermark = replica.high_watermark
            for batch in self._log.batches(self._number, self.offset):
                if batch.end_offset > high_watermark:
                    break
                if not batch.control:
                    yield from batch.records
                self.committed(batch)
            else:
                return
            if replica.high_watermark == high_watermark:
                return
