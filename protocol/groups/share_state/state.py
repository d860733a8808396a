"""The share state of one partition in one group, according to the log.

Kafka's log keeps every update since the last snapshot. Ours keeps the last record of each key, so
an update has all changes since the snapshot with its epoch. Either may be read first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from protocol.groups.share_state.batches import combined

if TYPE_CHECKING:
    from protocol.records import ShareSnapshotValue, ShareStateBatch, ShareUpdateValue

UNCHANGED: Final = -1
"""A start offset or leader epoch that an update or a request does not change."""


@dataclass(frozen=True, slots=True)
class ShareState:
    """``updates`` counts the updates that this replica has seen since the snapshot."""

    snapshot: ShareSnapshotValue | None = None
    update: ShareUpdateValue | None = None
    updates: int = field(default=0, compare=False)

    def with_snapshot(self, snapshot: ShareSnapshotValue | None) -> ShareState:
        """Return the state with a new snapshot; an update of an earlier one is outdated."""
        update = self.update
        if snapshot is not None and update is not None:
            update = update if update.snapshot_epoch >= snapshot.snapshot_epoch else None
        return ShareState(snapshot, update)

    def with_update(self, update: ShareUpdateValue | None) -> ShareState:
        """Return the state with a new update; ignore one of an earlier snapshot."""
        snapshot = self.snapshot
        newest = -1 if snapshot is None else snapshot.snapshot_epoch
        if update is not None and update.snapshot_epoch < newest:
            return self
        return replace(self, update=update, updates=self.updates + 1)

    @property
    def is_initialized(self) -> bool:
        """Whether there is a snapshot: an update alone means nothing."""
        return self.snapshot is not None

    @property
    def size(self) -> int:
        """How many batches the snapshot and its changes have."""
        return sum(len(each.state_batches) for each in (self.snapshot, self.update) if each)

    def current(self) -> ShareSnapshotValue:
        """Return the snapshot with its update applied."""
        snapshot, update = self.snapshot, self.update
        assert snapshot is not None
        if update is None or update.snapshot_epoch != snapshot.snapshot_epoch:
            return snapshot
        start_offset = _changed(snapshot.start_offset, update.start_offset)
        return replace(
            snapshot,
            leader_epoch=_changed(snapshot.leader_epoch, update.leader_epoch),
            start_offset=start_offset,
            delivery_complete_count=update.delivery_complete_count,
            state_batches=combined((*snapshot.state_batches, *update.state_batches), start_offset),
        )

    def changes(self) -> tuple[int, tuple[ShareStateBatch, ...]]:
        """Return the start offset and the batches of the changes since the snapshot."""
        snapshot, update = self.snapshot, self.update
        assert snapshot is not None
        if update is None or update.snapshot_epoch != snapshot.snapshot_epoch:
            return UNCHANGED, ()
        return update.start_offset, update.state_batches


def _changed(before: int, after: int) -> int:
    return before if after == UNCHANGED else after
