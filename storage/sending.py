"""What a leader sends: batches from memory or from the log, or slices of the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.messages import Append, InstallSnapshot
from storage.progress import MESSAGE_BYTES_MAX, ReplicationMode, SnapshotTransfer
from storage.tail import size_of, within

if TYPE_CHECKING:
    from storage.batch import Batch
    from storage.core import Core
    from storage.progress import Progress

RESEND_HEARTBEATS = 4
"""A slice of a snapshot is sent again after so many heartbeats without an answer."""

READ_BATCHES_MAX = 4_096


class Sender:
    """Turns the records that a peer lacks into messages."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._last: tuple[tuple[int, int, int, int], Append, int] | None = None

    def feed(self, peer: Progress) -> None:
        """Send what the peer lacks and can take; send a heartbeat if one is due.

        A peer whose link is down gets only the heartbeat: it is lost, unless the report of the
        broken link was wrong.
        """
        if not peer.is_up:
            if peer.beat_due:
                self._send_append(peer, 0, ())
                peer.beat_due = False
            return
        if peer.mode is ReplicationMode.STREAM:
            end_offset = self._core.tail.end_offset
            while peer.next_offset < end_offset and peer.has_room:
                if not self._send_batches(peer):
                    break
        elif peer.mode is ReplicationMode.PROBE and not peer.awaits_answer:
            self._send_batches(peer)
        if peer.mode is ReplicationMode.SNAPSHOT:
            self._send_slice(peer)
        elif peer.beat_due:
            self._send_append(peer, peer.next_offset, ())
            peer.beat_due = False

    def _send_batches(self, peer: Progress) -> bool:
        """Send one message of batches; return False when the peer needs a snapshot instead."""
        core, offset = self._core, peer.next_offset
        state = (offset, core.tail.end_offset, core.high_watermark, core.now)
        if self._last is not None and self._last[0] == state:  # peers mostly need the same
            _, message, size = self._last
            core.send(peer.key.node_id, message)
            peer.beat_due = False
            peer.sent(message.batches[-1].end_offset if message.batches else offset, size)
            return True
        found = core.tail.since(offset)
        if found is not None and (epoch := core.tail.epoch_before(offset)) is not None:
            batches, size = within(found, MESSAGE_BYTES_MAX)
            self._last = state, self._send(peer, offset, epoch, batches), size
        else:
            read = self._read(offset)
            if read is None:
                self._install(peer)
                return False
            batches, size = read
            peer.next_offset = batches[0].base_offset if batches else offset
            if not batches or not self._send_append(peer, peer.next_offset, batches):
                self._install(peer)
                return False
        peer.sent(batches[-1].end_offset if batches else offset, size)
        return True

    def _read(self, offset: int) -> tuple[tuple[Batch, ...], int] | None:
        """Read batches from the log, from the one that holds ``offset`` on; None if dropped."""
        core = self._core
        found: list[Batch] = []
        size = 0
        for batch in core.setting.log.batches(core.partition, offset):
            if not found and batch.base_offset > offset:
                return None
            found.append(batch)
            size += size_of(batch)
            if size >= MESSAGE_BYTES_MAX or len(found) >= READ_BATCHES_MAX:
                break
        return tuple(found), size

    def _epoch_before(self, offset: int) -> int | None:
        """Return the epoch of the record before ``offset``; None if it is no longer in the log."""
        core = self._core
        epoch = core.tail.epoch_before(offset)
        if epoch is None:
            before = next(iter(core.setting.log.batches(core.partition, offset - 1)), None)
            if before is not None and before.base_offset < offset:
                epoch = before.leader_epoch
        return epoch

    def _send_append(self, peer: Progress, offset: int, batches: tuple[Batch, ...]) -> bool:
        epoch = self._epoch_before(offset)
        if epoch is None:
            self._install(peer)
            return False
        self._send(peer, offset, epoch, batches)
        return True

    def _send(self, peer: Progress, offset: int, epoch: int, batches: tuple[Batch, ...]) -> Append:
        core = self._core
        peer.beat_due = False
        message = Append(
            core.partition,
            core.epoch,
            core.me,
            offset,
            epoch,
            batches,
            core.high_watermark,
            core.now,
        )
        core.send(peer.key.node_id, message)
        return message

    def _install(self, peer: Progress) -> None:
        core = self._core
        peer.install(SnapshotTransfer(core.setting.log.snapshot(core.partition), core.now))

    def _send_slice(self, peer: Progress) -> None:
        """Send the current slice, again only if it may be lost; send heartbeats in between."""
        core = self._core
        transfer = peer.transfer
        assert transfer is not None, "a snapshot is on its way"
        if core.now - transfer.sent_ms < RESEND_HEARTBEATS * core.timing.heartbeat_ms:
            if peer.beat_due:
                self._send_append(peer, 0, ())
            return
        transfer.sent_ms = core.now
        peer.beat_due = False
        snapshot = transfer.snapshot
        core.send(
            peer.key.node_id,
            InstallSnapshot(
                core.partition,
                core.epoch,
                core.me,
                snapshot.offset,
                snapshot.epoch,
                transfer.position,
                transfer.records,
                transfer.is_last,
                snapshot.voters or core.voters.committed,
                core.now,
            ),
        )
