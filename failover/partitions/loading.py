"""How a partition's machine is built from the log, in slices, and the state on disk kept up."""

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
    """Reads one partition: its compacted state, then the committed batches behind that.

    What is replayed from batches is gathered for the state again, so nothing between the two can be
    missed. ``offset`` is where the batches read so far end. While ``is_blocked`` the state on disk
    is being replaced and must be neither read nor written.
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
        """Begin again, with the next :meth:`records`: call that when what is drained is written."""
        self._records, self._is_open = None, False

    def records(self, replica: Replica) -> Iterator[RawRecord]:
        """Return the one iterator over what is still to be read, as far as it is committed."""
        if not self._is_open:
            self._open()
            self._records = chain(self._log.state(self._number), self._tail(replica))
        elif self._records is None:
            self._records = self._tail(replica)
        assert self._records is not None
        return self._records

    def has_all(self, replica: Replica) -> bool:
        """Whether all that is committed was read; if not, :meth:`records` goes on."""
        self._records = None
        return self.offset >= min(replica.high_watermark, replica.end_offset)

    def appended(self, batch: Batch) -> None:
        """Note a batch on its way to the log (before that is open it is found there)."""
        if self._is_open:
            self.compactor.hold(batch)

    def committed(self, batch: Batch) -> None:
        """Note a batch that was committed and is not read here any more."""
        if batch.end_offset > self.offset:
            self.offset = batch.end_offset
            self.compactor.add(batch)

    def truncated(self, offset: int) -> None:
        """Note that the batches from ``offset`` on are on their way out of the log."""
        if self._is_open:
            self.compactor.truncate(offset)

    def writes(self) -> list[Write]:
        """Return the writes that bring the state on disk up to the last batch gathered."""
        return self.compactor.writes() if self._is_open and not self.is_blocked else []

    def _open(self) -> None:
        stored = self._log.stored(self._number)
        self.compactor = Compactor(self._number, stored)
        for batch in self._log.batches(self._number, 0):
            self.compactor.hold(batch)
        self.offset = stored.applied_offset
        self._is_open = True

    def _tail(self, replica: Replica) -> Iterator[RawRecord]:
        """Read what is committed, from the log as it is when the reading begins.

        What is committed later may have replaced what this iteration would still find: it is looked
        up in the log as it is then.
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
