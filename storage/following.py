"""The follower's work: handle a leader's batches and snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.core import FOREVER_MS, SnapshotNotice
from storage.log import BeginInstall, FinishInstall, InstallSlice, Stored
from storage.messages import Append, Appended, InstallSnapshot, Joining, SnapshotInstalled

if TYPE_CHECKING:
    from storage.core import Core


class _Install:
    """A snapshot of one leadership that is being received."""

    def __init__(self, message: InstallSnapshot) -> None:
        self.identity = (message.epoch, message.offset)
        self.next_position = 0
        self.sent_ms = message.sent_ms

    def begins_again(self, message: InstallSnapshot) -> bool:
        """Whether the leader has gone back to the first slice: it takes the snapshot once more.

        A first slice that is only late, or sent twice, is older than a later slice.
        """
        return message.position == 0 and self.next_position > 1 and message.sent_ms > self.sent_ms


SYNCS_PER_LEASE = 8
"""An acknowledgement waits for the sync of its records for this fraction of a lease. Then the
leader gets one that names only what is on disk, so that a slow disk does not cost it its lease."""


class Following:
    """One replica's log, as its leader fills it. The caller has checked the message's epoch."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._install: _Install | None = None
        self._matched: tuple[int, int, int] | None = None  # epoch, end offset, sent_ms
        self._acknowledged = 0
        self._answer_by = FOREVER_MS

    @property
    def owes_answer(self) -> bool:
        """Whether :meth:`flush` has an acknowledgement to send now."""
        if self._matched is None:
            return False
        core = self.core
        epoch, end_offset, _ = self._matched
        return (
            end_offset <= core.durable
            or core.durable > self._acknowledged
            or core.now >= self._answer_by
            or epoch != core.epoch
        )

    @property
    def next_deadline(self) -> int:
        """When :meth:`flush` has a message to send although no sync has ended."""
        return FOREVER_MS if self._matched is None else self._answer_by

    def flush(self) -> None:
        """Acknowledge all received records that are on disk, in one message.

        Records on their way to the disk are acknowledged later, in another message.
        """
        if self._matched is None:
            return
        core = self.core
        epoch, end_offset, sent_ms = self._matched
        self._answer_by = FOREVER_MS
        if end_offset <= core.durable or epoch != core.epoch:
            self._matched = None
        if epoch == core.epoch:  # otherwise that leader's epoch is over
            self._acknowledged = min(end_offset, core.durable)
            core.send(core.leader_id, self._appended(True, self._acknowledged, sent_ms))

    def on_append(self, message: Append) -> None:
        """Append batches if the logs agree before them; otherwise answer where to try again."""
        core = self.core
        tail = core.tail
        previous = message.previous_offset
        if previous > core.high_watermark:  # otherwise it is committed: all logs agree there
            epoch = tail.epoch_before(previous)
            if epoch != message.previous_epoch:
                self._refuse(message)
                return
        batches = message.batches
        matched = previous
        if batches:
            if self._install is not None:
                if self._install.identity[0] == message.epoch:
                    return  # reordered: the snapshot will cover it
                self._give_up_install()
                tail = core.tail
            for batch in batches:
                if batch.base_offset != tail.end_offset:
                    if self._has(batch.end_offset, batch.leader_epoch):
                        continue
                    core.truncate(batch.base_offset)
                core.append(batch)
            matched = batches[-1].end_offset
        self._commit(min(message.high_watermark, matched))
        if matched >= message.high_watermark:
            core.is_current = True
        self._match(matched, message.sent_ms)

    def _commit(self, high_watermark: int) -> None:
        if high_watermark > self.core.high_watermark:
            self.core.commit(high_watermark)

    def on_install(self, message: InstallSnapshot) -> None:
        """Store one slice of the leader's state, in order; answer which slice is wanted next."""
        core = self.core
        offset = message.offset
        if self._has(offset, message.last_epoch):
            self._match(max(offset, core.high_watermark), message.sent_ms)
            return
        install = self._install
        if (
            install is None
            or install.identity != (message.epoch, offset)
            or install.begins_again(message)
        ):
            if message.position:
                self._installed(message, 0)
                return
            install = self._install = _Install(message)
            self._matched = None  # it refers to the log that is dropped here
            core.out.writes.append(BeginInstall(core.partition, offset, message.last_epoch))
            core.installing = True
            core.restart_log(Stored())
            core.voters.truncate(0)
            core.out.committed.clear()
            core.out.snapshot = SnapshotNotice(offset, done=False)
        if message.position == install.next_position:
            install.next_position += 1
            install.sent_ms = message.sent_ms
            core.out.writes.append(InstallSlice(core.partition, message.records))
            if message.is_last:
                self._finish(message)
        self._installed(message, install.next_position)

    def join(self, known_nodes: set[int]) -> None:
        """Ask the leader, whichever node that is, for the log."""
        core = self.core
        for node_id in sorted(known_nodes):
            core.send(node_id, Joining(core.partition, core.epoch, core.me))

    def refuse_old(self, message: Append | InstallSnapshot) -> None:
        """Tell a leader of an older epoch that its epoch is over."""
        core = self.core
        core.send(message.leader.node_id, self._appended(False, 0, message.sent_ms))

    def _has(self, offset: int, epoch: int) -> bool:
        """Whether the log has the leader's record before ``offset``, and so all before it."""
        core = self.core
        return offset <= core.high_watermark or core.tail.epoch_before(offset) == epoch

    def _match(self, end_offset: int, sent_ms: int) -> None:
        core, earlier = self.core, self._matched
        epoch = core.epoch
        if earlier is not None and earlier[0] == epoch:
            end_offset, sent_ms = max(end_offset, earlier[1]), max(sent_ms, earlier[2])
        else:
            self._acknowledged = core.durable
        self._matched = epoch, end_offset, sent_ms
        if self._answer_by == FOREVER_MS:
            self._answer_by = core.now + core.timing.lease_ms // SYNCS_PER_LEASE

    def _refuse(self, message: Append) -> None:
        """Answer where the logs may agree: the end of an epoch no newer than the one asked for."""
        core = self.core
        tail = core.tail
        end_offset, epoch = tail.end_offset, tail.last_epoch
        if end_offset >= message.previous_offset:
            known = tail.end_of_epoch(message.previous_epoch)
            epoch, end_offset = known if known is not None else (0, core.high_watermark)
            while end_offset >= message.previous_offset:
                # The record before is of an older epoch than the leader's: go back before that
                # epoch, so that each answer brings the leader nearer.
                epoch, end_offset = tail.before_epoch(epoch)
        end_offset = max(end_offset, core.high_watermark)
        core.send(
            message.leader.node_id,
            Appended(
                core.partition, core.epoch, core.me, False, end_offset, epoch, message.sent_ms
            ),
        )

    def _appended(self, accepted: bool, end_offset: int, sent_ms: int) -> Appended:
        core = self.core
        return Appended(
            core.partition,
            core.epoch,
            core.me,
            accepted,
            end_offset,
            core.tail.last_epoch,
            sent_ms,
        )

    def _installed(self, message: InstallSnapshot, next_position: int) -> None:
        core = self.core
        core.promise(
            message.leader.node_id,
            SnapshotInstalled(
                core.partition,
                core.epoch,
                core.me,
                message.offset,
                next_position,
                message.sent_ms,
            ),
        )

    def _finish(self, message: InstallSnapshot) -> None:
        core = self.core
        self._install, core.installing = None, False
        offset, epoch = message.offset, message.last_epoch
        core.out.writes.append(FinishInstall(core.partition, offset, epoch))
        core.voters.reset(message.voters, offset)
        core.save_voters()
        core.restart_log(Stored(applied_offset=offset, applied_epoch=epoch))
        core.out.snapshot = SnapshotNotice(offset, done=True)

    def _give_up_install(self) -> None:
        """Begin an empty log: the snapshot's leader is gone, the new one sends all from 0 on."""
        core = self.core
        self._install, core.installing = None, False
        core.out.writes += [
            BeginInstall(core.partition, 0, 0),
            FinishInstall(core.partition, 0, 0),
        ]
        core.out.snapshot = SnapshotNotice(0, done=True)
