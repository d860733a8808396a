"""Advances the compacted state behind the commits, and drops the log behind the state.

The state needs no write per commit: records that it lacks are still in the log's tail. So committed
records are gathered here, the last value per key, and written once there are enough. These writes
need no sync: if a crash loses them, the batches that they cover are still in the log.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from storage.log import ApplyState, DropBefore, Write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.batch import Batch, RawRecord
    from storage.log import Stored

STEP_RECORDS = 1_000
"""Number of keys to gather before the state is written, and so the most to replay twice."""

STEP_BYTES = 4 << 20
"""Bytes of records to gather at most before the state is written."""

STEP_SMALL_BYTES = 256 << 10
"""Bytes of records that are not large to gather before the state is written, each key counted once.

That is how much is written at once, while clients wait: about a millisecond.
"""

LARGE_BYTES = 64 << 10
"""A larger record is often rewritten: it does not count for :data:`STEP_SMALL_BYTES`."""

KEPT_BATCHES = 1_000
"""Number of applied batches kept in the log, for a standby that is a little behind."""

KEPT_BYTES = 8 << 20
"""Bytes of values kept at most in applied batches: fewer batches are kept when they are large."""

PATIENCE = 16
"""Factor on the kept batches while a standby catches up; a slower standby starts again."""


class Compactor:
    """Gathers one partition's committed batches and turns them into writes of its state."""

    def __init__(self, partition: int, stored: Stored) -> None:
        self.applied_offset = stored.applied_offset
        self.start_offset = stored.start_offset
        self.keep_from: int | None = None
        """The first offset that a replica behind this one still needs; None if none is behind."""

        self._partition = partition
        self._latest: dict[bytes, bytes | None] = {}
        self._bytes = 0
        self._small_bytes = 0
        self._offset = stored.applied_offset
        self._epoch = stored.applied_epoch
        self._kept: deque[tuple[int, int]] = deque()  # base offset and bytes
        self._kept_bytes = 0
        self._batches = 0

    def hold(self, batch: Batch) -> None:
        """Note that a batch is in the log (in order, each once)."""
        size = sum(len(value) for _, value in batch.records if value)
        self._kept.append((batch.base_offset, size))
        self._kept_bytes += size

    def truncate(self, offset: int) -> None:
        """Forget the batches from ``offset`` on: the log drops them; none is committed."""
        while self._kept and self._kept[-1][0] >= offset:
            self._kept_bytes -= self._kept.pop()[1]

    def add(self, batch: Batch) -> None:
        """Gather a newly committed batch."""
        self._offset = batch.end_offset
        self._epoch = batch.leader_epoch
        self._batches += 1
        if not batch.control:
            latest = self._latest
            for key, value in batch.records:
                size = len(key) + (len(value) if value else 0)
                self._bytes += size
                if size < LARGE_BYTES and key not in latest:
                    self._small_bytes += size
                latest[key] = value

    def gathered(self) -> Iterable[RawRecord]:
        """Return the records gathered since the last step: the last value of each key."""
        return self._latest.items()

    def due(self) -> bool:
        """Return whether enough has been gathered for a write."""
        return (
            len(self._latest) >= STEP_RECORDS
            or self._small_bytes >= STEP_SMALL_BYTES
            or self._bytes >= STEP_BYTES
            or self._batches >= 2 * STEP_RECORDS
        )

    def writes(self) -> list[Write]:
        """Return the writes that advance the state to the last gathered batch; may be empty."""
        if self._offset == self.applied_offset:
            return []
        records = tuple(self._latest.items())
        self._latest.clear()
        self._bytes = self._small_bytes = self._batches = 0
        self.applied_offset = self._offset
        return [ApplyState(self._partition, self._offset, self._epoch, records), *self._drop()]

    def _drop(self) -> list[Write]:
        """Drop the oldest batches that the state already holds.

        Nothing is dropped before twice the bounds are reached: one range at a time, not one batch.
        """
        kept = self._kept
        if len(kept) <= 2 * KEPT_BATCHES and self._kept_bytes <= 2 * KEPT_BYTES:
            return []
        end = self.applied_offset
        patient = len(kept) <= PATIENCE * KEPT_BATCHES and self._kept_bytes <= PATIENCE * KEPT_BYTES
        if self.keep_from is not None and patient:
            end = min(end, self.keep_from)
        while len(kept) > 1 and kept[1][0] <= end:
            if len(kept) <= KEPT_BATCHES and self._kept_bytes <= KEPT_BYTES:
                break
            self._kept_bytes -= kept.popleft()[1]
        if not kept or kept[0][0] == self.start_offset:
            return []
        self.start_offset = kept[0][0]
        return [DropBefore(self._partition, self.start_offset)]
