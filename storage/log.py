"""The data on disk: writes as values, an interface to read it, and a log in memory.

A process has one log for all its partitions. Per partition it holds

* the batches not yet dropped: offsets ``start_offset`` up to ``end_offset`` (exclusive);
* the compacted *state*: the latest committed value of each key among the records before
  ``applied_offset``. It is the snapshot: batches before that offset may be dropped;
* the vote: epoch, voted for, and a high watermark that is never ahead of the true one;
* the voters: the replicas whose majority commits, as last saved.

All writes of one call are one atomic unit: after a crash either all of them are there or none.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from storage.batch import Batch, RawRecord
    from storage.messages import ReplicaKey

SLICE_BYTES = 256 << 10
"""Approximate size of a snapshot slice: this much is read between two polls of the sockets."""

NOBODY = -1
"""No node: ``voted_for`` of a replica that has not voted, or an unknown leader."""


class LogError(Exception):
    """The log cannot be used. The message says in one sentence which log and what to do."""


class CorruptLogError(LogError):
    """A checksum or the order of the log is wrong somewhere other than in a torn tail."""


class UnknownRecordError(CorruptLogError):
    """A record is intact, but no known program version has written it."""


class StaleLogError(LogError):
    """The directory is an outdated copy of this node's log."""


class ForeignLogError(LogError):
    """The directory belongs to another cluster, partition count or format."""


class LockedLogError(LogError):
    """Another process has the directory open."""


class SnapshotGoneError(LogError):
    """A snapshot can no longer be read; a new one can be taken at once."""


class FullDiskError(LogError):
    """The disk is full: nothing of the atomic unit was applied, and reads still work.

    The same writes may be repeated later, alone or with others after them; they succeed once there
    is room again. A caller that catches this error must not report the failed writes as persisted,
    must keep the writes in order, and must not release any reply or message that depends on them.
    """


@dataclass(frozen=True, slots=True)
class AppendBatch:
    """Append ``batch`` at the end of a partition's log."""

    partition: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class TruncateFrom:
    """Drop every batch whose base offset is ``offset`` or later (a conflict with the leader)."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class DropBefore:
    """Drop every batch whose base offset is less than ``offset`` (they are in the state)."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class ApplyState:
    """Advance the compacted state to ``offset`` (exclusive), whose last record is of ``epoch``.

    ``records`` are committed, at most one per key; a value of None removes the key.
    """

    partition: int
    offset: int
    epoch: int
    records: Sequence[RawRecord]


@dataclass(frozen=True, slots=True)
class InstallState:
    """Replace everything: the state becomes ``records`` at ``offset``, with an empty log there."""

    partition: int
    offset: int
    epoch: int
    records: Sequence[RawRecord]


@dataclass(frozen=True, slots=True)
class SaveVote:
    """Store the epoch, the vote given in it, and the known high watermark."""

    partition: int
    epoch: int
    voted_for: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class SaveVoters:
    """Store the voters, as of the record before ``offset``."""

    partition: int
    voters: tuple[ReplicaKey, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class BeginInstall:
    """Drop a partition's log and state before a snapshot at ``offset`` that arrives in slices.

    Until :class:`FinishInstall` the partition reads as empty; only its vote and its voters stay.
    After a crash in between it is empty, and the snapshot must be installed again. To give up a
    snapshot, write ``BeginInstall(p, 0, 0), FinishInstall(p, 0, 0)``.
    """

    partition: int
    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class InstallSlice:
    """Add records of the snapshot that :class:`BeginInstall` announced."""

    partition: int
    records: Sequence[RawRecord]


@dataclass(frozen=True, slots=True)
class FinishInstall:
    """Complete the snapshot: the state is at ``offset``, and the log is empty there."""

    partition: int
    offset: int
    epoch: int


Write: TypeAlias = (
    AppendBatch
    | TruncateFrom
    | DropBefore
    | ApplyState
    | InstallState
    | SaveVote
    | SaveVoters
    | BeginInstall
    | InstallSlice
    | FinishInstall
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The stored data of one partition, without its records. ``end_offset`` is exclusive.

    ``voters`` are empty when none were ever saved.
    """

    epoch: int = 0
    voted_for: int = NOBODY
    high_watermark: int = 0
    applied_offset: int = 0
    applied_epoch: int = 0
    start_offset: int = 0
    end_offset: int = 0
    last_epoch: int = 0
    voters: tuple[ReplicaKey, ...] = ()
    voters_offset: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The compacted state at ``offset``, whose last record is of ``epoch``.

    ``slices`` reads the state as of the time when the snapshot was taken, in key order and only
    once, in pieces of about :data:`SLICE_BYTES`; writes may go on meanwhile. An empty state has no
    slice. Reading raises :class:`SnapshotGoneError` when the log had to be reopened: take a new
    snapshot then.
    """

    offset: int
    epoch: int
    voters: tuple[ReplicaKey, ...]
    slices: Iterator[tuple[RawRecord, ...]]


class Log(Protocol):
    """One process's log. Reads see every write made so far, synced or not."""

    def write(self, writes: Sequence[Write], sync: bool) -> None:
        """Write all in order, as one atomic unit; with ``sync``, return once it is synced."""

    def stored(self, partition: int) -> Stored:
        """Return what is stored of a partition; an unknown partition is empty."""

    def batches(self, partition: int, offset: int) -> Iterator[Batch]:
        """Iterate over the batches that end after ``offset``, in order."""

    def state(self, partition: int, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the compacted state in key order, as of the start of the iteration.

        Only over the keys that begin with ``prefix``.
        """

    def snapshot(self, partition: int) -> Snapshot:
        """Return the current compacted state, to be read while writes go on."""


def in_slices(rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[RawRecord, ...]]:
    """Cut rows into slices of about :data:`SLICE_BYTES`."""
    gathered: list[RawRecord] = []
    size = 0
    for row in rows:
        gathered.append(row)
        size += len(row[0]) + len(row[1])
        if size >= SLICE_BYTES:
            yield tuple(gathered)
            gathered, size = [], 0
    if gathered:
        yield tuple(gathered)


@dataclass(slots=True)
class _Image:
    """One partition in memory."""

    batches: list[Batch] = field(default_factory=list)
    state: dict[bytes, bytes] = field(default_factory=dict)
    epoch: int = 0
    voted_for: int = NOBODY
    high_watermark: int = 0
    applied_offset: int = 0
    applied_epoch: int = 0
    voters: tuple[ReplicaKey, ...] = ()
    voters_offset: int = 0
    installing: bool = False

    def put(self, write: Write) -> None:
        match write:
            case AppendBatch(_, batch):
                self.batches.append(batch)
            case TruncateFrom(_, offset):
                self.batches = [b for b in self.batches if b.base_offset < offset]
            case DropBefore(_, offset):
                self.batches = [b for b in self.batches if b.base_offset >= offset]
            case SaveVote(_, epoch, voted_for, high_watermark):
                self.epoch, self.voted_for = epoch, voted_for
                self.high_watermark = high_watermark
            case ApplyState(_, offset, epoch, records):
                self.apply(offset, epoch, records)
            case SaveVoters(_, voters, offset):
                self.voters, self.voters_offset = voters, offset
            case _:
                self.install(write)

    def install(self, write: InstallState | BeginInstall | InstallSlice | FinishInstall) -> None:
        match write:
            case InstallState(_, offset, epoch, records):
                self.wipe()
                self.apply(offset, epoch, records)
            case BeginInstall():
                self.wipe()
                self.installing = True
            case InstallSlice(_, records):
                self.apply(0, 0, records)
            case FinishInstall(_, offset, epoch):
                self.applied_offset, self.applied_epoch = offset, epoch
                self.installing = False

    def wipe(self) -> None:
        self.batches, self.state = [], {}
        self.applied_offset = self.applied_epoch = 0
        self.installing = False

    def apply(self, offset: int, epoch: int, records: Sequence[RawRecord]) -> None:
        self.applied_offset, self.applied_epoch = offset, epoch
        for key, value in records:
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value

    def stored(self) -> Stored:
        if self.installing:
            return Stored(
                epoch=self.epoch,
                voted_for=self.voted_for,
                voters=self.voters,
                voters_offset=self.voters_offset,
            )
        first = self.batches[0] if self.batches else None
        last = self.batches[-1] if self.batches else None
        end_offset = last.end_offset if last else self.applied_offset
        return Stored(
            epoch=self.epoch,
            voted_for=self.voted_for,
            high_watermark=min(max(self.high_watermark, self.applied_offset), end_offset),
            applied_offset=self.applied_offset,
            applied_epoch=self.applied_epoch,
            start_offset=first.base_offset if first else self.applied_offset,
            end_offset=end_offset,
            last_epoch=last.leader_epoch if last else self.applied_epoch,
            voters=self.voters,
            voters_offset=self.voters_offset,
        )


_END_OFFSET: Final = attrgetter("end_offset")


class MemoryLog:
    """A log for tests and the simulator. :meth:`crash` may lose unsynced writes."""

    def __init__(self) -> None:
        self._live: dict[int, _Image] = {}
        self._safe: dict[int, _Image] = {}
        self._unsynced: list[tuple[Write, ...]] = []

    @property
    def unsynced(self) -> int:
        """The number of atomic units that a crash may lose."""
        return len(self._unsynced)

    def write(self, writes: Sequence[Write], sync: bool) -> None:
        """Write all in order, as one atomic unit."""
        unit = tuple(writes)
        _put(self._live, unit)
        self._unsynced.append(unit)
        if sync:
            self.sync()

    def sync(self, units: int | None = None) -> None:
        """Sync the oldest units: as many as there were when a sync began (None: all of them)."""
        for earlier in self._unsynced[:units]:
            _put(self._safe, earlier)
        del self._unsynced[:units]

    def crash(self, kept: int = 0) -> MemoryLog:
        """Return the log as a restart finds it: all synced units, and ``kept`` more."""
        survivor = MemoryLog()
        for unit in self._unsynced[:kept]:
            _put(self._safe, unit)
        for image in self._safe.values():
            if image.installing:
                image.wipe()
        survivor._live = self._safe
        survivor._safe = {partition: _copy(image) for partition, image in self._safe.items()}
        return survivor

    def copied(self) -> MemoryLog:
        """Return a separate log that holds the synced writes of this one."""
        twin = MemoryLog()
        twin._live = {partition: _copy(image) for partition, image in self._safe.items()}
        twin._safe = {partition: _copy(image) for partition, image in self._safe.items()}
        for images in (twin._live, twin._safe):
            for image in images.values():
                if image.installing:
                    image.wipe()
        return twin

    def synced_batches(self, partition: int) -> Sequence[Batch]:
        """Return the batches of a partition that no crash takes away."""
        return tuple(self._safe.get(partition, _Image()).batches)

    def synced(self, partition: int) -> Stored:
        """Return what the worst crash would leave of a partition now."""
        return self._safe.get(partition, _Image()).stored()

    def stored(self, partition: int) -> Stored:
        """Return what is stored of a partition."""
        return self._live.get(partition, _Image()).stored()

    def batches(self, partition: int, offset: int) -> Iterator[Batch]:
        """Iterate over the batches that end after ``offset``."""
        image = self._live.get(partition)
        if image is None:
            return iter(())
        first = bisect_right(image.batches, offset, key=_END_OFFSET)
        return iter(image.batches[first:])

    def state(self, partition: int, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the compacted state in key order."""
        image = self._live.get(partition, _Image())
        if image.installing:
            return iter(())
        return iter(sorted(row for row in image.state.items() if row[0].startswith(prefix)))

    def snapshot(self, partition: int) -> Snapshot:
        """Return the current compacted state."""
        stored = self.stored(partition)
        slices = in_slices(self.state(partition))
        return Snapshot(stored.applied_offset, stored.applied_epoch, stored.voters, slices)


def _put(images: dict[int, _Image], unit: tuple[Write, ...]) -> None:
    for write in unit:
        images.setdefault(write.partition, _Image()).put(write)


def _copy(image: _Image) -> _Image:
    return _Image(
        list(image.batches),
        dict(image.state),
        image.epoch,
        image.voted_for,
        image.high_watermark,
        image.applied_offset,
        image.applied_epoch,
        image.voters,
        image.voters_offset,
        image.installing,
    )
