"""Copies of the committed state of partitions that are led here, read in slices by operators.

A copy is the state at one offset: the compacted state on disk, with the committed records behind
it. Nothing of the running coordinator changes for it. There is one copy of a partition at a time,
and it is dropped when nobody reads it, as RocksDB keeps the files that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from failover.partition_kinds import title_of
from storage.log import LogError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from storage.batch import RawRecord
    from storage.log import Log

IDLE_S: Final = 300.0
"""A copy that nobody reads for so long is dropped."""


class CopyStart(NamedTuple):
    """The state before ``offset``, whose last record is of ``epoch``; or a ``failure``, a sentence.

    ``copy_id`` distinguishes the copy from earlier ones of its partition.
    """

    copy_id: int
    offset: int
    epoch: int
    failure: str = ""


class CopySlice(NamedTuple):
    """The next records of a copy; none at its end. ``failure`` is a sentence if it is gone."""

    records: tuple[RawRecord, ...]
    failure: str = ""


@dataclass(slots=True)
class _Copy:
    copy_id: int
    slices: Iterator[tuple[RawRecord, ...]]
    timer: asyncio.TimerHandle


class StateCopies:
    """The copies that are being read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._copies: dict[int, _Copy] = {}
        self._last_id = 0

    def begin(self, log: Log, partition: int, high_watermark: int, leader_epoch: int) -> CopyStart:
        """Begin to copy a partition at its high watermark; an earlier copy of it is dropped.

        Until a new leader has committed a record of its own epoch, its high watermark may be older
        than what the leader before had acknowledged: then there is no copy.
        """
        try:
            offset, epoch, slices = state_before(log, partition, high_watermark)
        except LogError as error:
            return CopyStart(0, 0, 0, str(error))
        if offset < high_watermark:
            return CopyStart(
                0, 0, 0, f"{title_of(partition)} has committed records that are not on this disk."
            )
        if epoch < leader_epoch:
            return CopyStart(
                0, 0, 0, f"{title_of(partition)} has a new leader, which has committed nothing yet."
            )
        self._last_id += 1
        self._drop(partition)
        timer = self._loop.call_later(IDLE_S, self._drop, partition)
        self._copies[partition] = _Copy(self._last_id, slices, timer)
        return CopyStart(self._last_id, offset, epoch)

    def read(self, partition: int, copy_id: int) -> CopySlice:
        """Return the next slice of a copy, of a few hundred KiB; an empty one ends it."""
        copy = self._copies.get(partition)
        if copy is None or copy.copy_id != copy_id:
            return CopySlice((), f"The copy of {title_of(partition)} was dropped.")
        copy.timer.cancel()
        try:
            records = next((found for found in copy.slices if found), ())
        except LogError as error:
            self._drop(partition)
            return CopySlice((), str(error))
        if records:
            copy.timer = self._loop.call_later(IDLE_S, self._drop, partition)
        else:
            self._drop(partition)
        return CopySlice(records)

    def close(self) -> None:
        """Drop all copies: the log closes."""
        for partition in list(self._copies):
            self._drop(partition)

    def _drop(self, partition: int) -> None:
        copy = self._copies.pop(partition, None)
        if copy is not None:
            copy.timer.cancel()


def state_before(
    log: Log, partition: int, end: int
) -> tuple[int, int, Iterator[tuple[RawRecord, ...]]]:
    """Return a partition's state with the whole batches before ``end``, and its offset and epoch.

    The offset is less than ``end`` if the log ends before. Raises
    :class:`storage.log.LogError`, also while the slices are read.
    """
    snapshot = log.snapshot(partition)
    offset, epoch = snapshot.offset, snapshot.epoch
    behind: dict[bytes, bytes | None] = {}
    for batch in log.batches(partition, offset):
        if batch.end_offset > end:
            break
        offset, epoch = batch.end_offset, batch.leader_epoch
        if not batch.control:
            behind.update(batch.records)
    return offset, epoch, merged(snapshot.slices, behind)


def merged(
    slices: Iterator[tuple[RawRecord, ...]], behind: dict[bytes, bytes | None]
) -> Iterator[tuple[RawRecord, ...]]:
    """Yield a state with the records behind it: the last value of each key, without tombstones."""
    for rows in slices:
        latest = ((key, behind.pop(key) if key in behind else value) for key, value in rows)
        yield tuple(row for row in latest if row[1] is not None)
    yield tuple(row for row in behind.items() if row[1] is not None)
