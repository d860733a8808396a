"""The end of a replica's log in memory: where epochs begin, and the recent batches."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.batch import Batch
    from storage.log import Stored

KEPT_BATCHES = 256
"""How many committed batches stay in memory for followers that are a little behind."""

KEPT_BYTES = 8 << 20

_base_offset = attrgetter("base_offset")


def size_of(batch: Batch) -> int:
    """Return the approximate size of a batch on the wire, in bytes."""
    size = 64
    for key, value in batch.records:
        size += len(key) + 16 + (len(value) if value else 0)
    return size


def within(batches: Sequence[Batch], bytes_max: int) -> tuple[tuple[Batch, ...], int]:
    """Return the first batches within ``bytes_max`` together (at least one), and their size."""
    if len(batches) == 1:
        return (batches[0],), size_of(batches[0])
    size = 0
    for count, batch in enumerate(batches):
        more = size_of(batch)
        if count and size + more > bytes_max:
            return tuple(batches[:count]), size
        size += more
    return tuple(batches), size


class LogTail:
    """The end of a replica's log, as far as it is needed without reading the disk.

    ``keeps``: keep committed batches for a while. Only a replica with peers needs them.
    """

    def __init__(self, stored: Stored, keeps: bool) -> None:
        self.keeps = keeps
        self.end_offset = self.base = stored.applied_offset
        self.last_epoch = stored.applied_epoch
        # (offset of the first record, epoch) of each epoch; the first one may begin earlier
        self._epochs = [(self.base - 1, self.last_epoch)]
        self._batches: list[Batch] = []
        self._committed = 0
        self._bytes = 0

    @property
    def uncommitted(self) -> list[Batch]:
        """The batches after the high watermark."""
        return self._batches[self._committed :]

    def append(self, batch: Batch) -> None:
        """Add a batch at the end."""
        assert batch.base_offset == self.end_offset, "a log has no gaps"
        epoch = batch.leader_epoch
        if epoch != self.last_epoch:
            assert epoch > self.last_epoch, "epochs only grow along the log"
            self._epochs.append((batch.base_offset, epoch))
            self.last_epoch = epoch
        self._batches.append(batch)
        self.end_offset = batch.end_offset
        if self.keeps:
            self._bytes += size_of(batch)

    def truncate(self, offset: int) -> None:
        """Drop the batches from ``offset`` on; none of them is committed."""
        while self._batches and self._batches[-1].base_offset >= offset:
            assert len(self._batches) > self._committed, "what is committed is never truncated"
            self._bytes -= size_of(self._batches.pop()) if self.keeps else 0
        while len(self._epochs) > 1 and self._epochs[-1][0] >= offset:
            self._epochs.pop()
        self.last_epoch = self._epochs[-1][1]
        self.end_offset = offset

    def commit(self, offset: int) -> list[Batch]:
        """Return the batches that the high watermark has now passed."""
        batches, at = self._batches, self._committed
        while at < len(batches) and batches[at].end_offset <= offset:
            at += 1
        done = batches[self._committed : at]
        self._committed = at
        if not self.keeps:
            del batches[:at]
            self._committed = 0
        elif at > 2 * KEPT_BATCHES or self._bytes > 2 * KEPT_BYTES:
            self._trim()
        return done

    def _trim(self) -> None:
        count = max(self._committed - KEPT_BATCHES, 0)
        size = self._bytes - sum(map(size_of, self._batches[:count]))
        while count < self._committed and size > KEPT_BYTES:
            size -= size_of(self._batches[count])
            count += 1
        del self._batches[:count]
        self._committed -= count
        self._bytes = size

    def since(self, offset: int) -> Sequence[Batch] | None:
        """Return the batches from ``offset`` on; None if they are not all in memory."""
        batches = self._batches
        if offset == self.end_offset:
            return ()
        if not batches or offset < batches[0].base_offset:
            return None
        if batches[-1].base_offset == offset:
            return batches[-1:]
        at = bisect_left(batches, offset, key=_base_offset)
        return batches[at:] if batches[at].base_offset == offset else None

    def epoch_before(self, offset: int) -> int | None:
        """Return the epoch of the record before ``offset`` (0 at offset 0); None if not known."""
        if offset == 0:
            return 0
        if offset == self.end_offset:
            return self.last_epoch
        if offset > self.end_offset:
            return None
        for first, epoch in reversed(self._epochs):
            if first < offset:
                return epoch
        return None

    def before_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the epoch before a known one and where it ends, as far as is known in memory."""
        at = next(n for n, (_, known) in enumerate(self._epochs) if known == epoch)
        if at == 0:
            return 0, max(self._epochs[0][0], 0)
        return self._epochs[at - 1][1], self._epochs[at][0]

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Return the newest epoch that is not newer than ``epoch``, and where it ends here.

        None when it lies before what is known in memory.
        """
        end = self.end_offset
        for first, known in reversed(self._epochs):
            if known <= epoch:
                return known, end
            end = first
        return None
