"""The voters. A change takes effect at its record, and is undone when that is truncated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.control import voters_in

if TYPE_CHECKING:
    from storage.batch import Batch
    from storage.messages import ReplicaKey


class VoterHistory:
    """The committed voters and the changes after them that are not known to be committed.

    A leader appends a change only when the previous one is committed. So consecutive changes differ
    by one replica, and any two majorities that may count at the same time share a replica.
    """

    def __init__(self, voters: tuple[ReplicaKey, ...], offset: int) -> None:
        self.committed = voters
        self.current = voters
        self.offset = offset
        """The end offset of the record that set the committed voters."""
        self._pending: list[tuple[int, tuple[ReplicaKey, ...]]] = []

    @property
    def is_settled(self) -> bool:
        """Whether no change is uncommitted."""
        return not self._pending

    def append(self, batch: Batch) -> bool:
        """Apply a control batch; return whether it changed the voters."""
        voters = voters_in(batch)
        if voters is None or batch.end_offset <= self.offset:
            return False
        self._pending.append((batch.end_offset, voters))
        self.current = voters
        return True

    def commit(self, high_watermark: int) -> bool:
        """Settle the changes before the high watermark; return whether there were any."""
        done = [change for change in self._pending if change[0] <= high_watermark]
        if not done:
            return False
        self._pending = self._pending[len(done) :]
        self.offset, self.committed = done[-1]
        return True

    def truncate(self, offset: int) -> None:
        """Undo the changes at ``offset`` and after."""
        self._pending = [change for change in self._pending if change[0] <= offset]
        self.current = self._pending[-1][1] if self._pending else self.committed

    def reset(self, voters: tuple[ReplicaKey, ...], offset: int) -> None:
        """Replace the voters with those of a snapshot."""
        self._pending.clear()
        self.committed = self.current = voters
        self.offset = offset
