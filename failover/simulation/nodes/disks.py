"""A node's disk: one directory's log, the marks of its starts, and its faults.

What the process opens is checked as in production: a log whose checksums are wrong, or that is a
copy (:mod:`storage.disk.incarnation`), is left untouched until the others have everything without
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from storage.disk.incarnation import Incarnation, SeenIncarnations, descends
from storage.log import CorruptLogError, FullDiskError, LogError, MemoryLog, StaleLogError

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from storage.batch import Batch
    from storage.disk.incarnation import SeenStart
    from storage.log import Snapshot


@dataclass(slots=True, eq=False)
class Directory:
    """The contents of one directory; ``is_old``, unknown to the nodes: it is an older copy.

    A copy lacks the hard link that the file beside it records, unless ``is_unmarked`` is set: then
    the whole machine is an older copy.
    """

    directory_id: str
    log: MemoryLog
    incarnation: Incarnation
    memory: SeenIncarnations = field(default_factory=SeenIncarnations)
    is_old: bool = False
    is_unmarked: bool = False

    def copy(self) -> Directory:
        """Return the directory as a backup would contain it: everything that was synced."""
        return Directory(
            self.directory_id,
            self.log.copied(),
            self.incarnation,
            SeenIncarnations(self.memory.rows()),
            is_old=True,
        )


@dataclass(slots=True, eq=False)
class Disk:
    """The current faults of a node's disk; ``witness`` is the file beside the directory.

    ``sync_ms`` is the minimum and maximum time of a sync, where it differs from the settings;
    ``write_ms`` is that of a write without a sync, which takes no time unless a fault slows it.
    ``misdirected``: by partition and base offset, the partition and the batch that are read there.
    ``fails_writes``, ``fails_syncs`` and ``fails_reads`` count the operations that will still fail.
    """

    sync_ms: tuple[int, int] | None = None
    write_ms: tuple[int, int] | None = None
    is_full: bool = False
    fails_writes: int = 0
    fails_syncs: int = 0
    fails_reads: int = 0
    is_rotten: bool = False
    misdirected: dict[tuple[int, int], tuple[int, Batch]] = field(default_factory=dict)
    witness: SeenStart | None = None

    def write(self) -> None:
        """Raise the error that a write raises now."""
        if self.is_full:
            raise FullDiskError("The simulated disk is full.")
        if self.fails_writes:
            self.fails_writes -= 1
            raise LogError("The simulated disk failed a write.")

    def write_takes(self, rng: random.Random) -> int:
        """Return a random time for a write, in which its process does nothing else."""
        return 0 if self.write_ms is None else rng.randint(*self.write_ms)

    def read(self) -> None:
        """Raise the error that a read raises now."""
        if self.fails_reads:
            self.fails_reads -= 1
            raise CorruptLogError("A sector of the simulated disk cannot be read.")

    def found(self, partition: int, batch: Batch) -> Batch:
        """Return what is read where a batch was written; raise if its place has another's."""
        place = partition, batch.base_offset
        if place not in self.misdirected:
            return batch
        other, read = self.misdirected[place]
        check_place((other, read.base_offset), place)
        return read

    def sync(self, usual_ms: tuple[int, int], more_ms: int, rng: random.Random) -> int | None:
        """Return a random time for a sync, ``more_ms`` longer than usual; None: no time at all.

        Raises the error that a sync raises now.
        """
        low, high = self.sync_ms or usual_ms
        if self.fails_syncs:
            self.fails_syncs -= 1
            raise LogError("The simulated disk failed a sync.")
        if not high + more_ms:
            return None
        return low + more_ms + int(rng.random() * (high - low + 1))

    def open(self, directory: Directory, token: str) -> None:
        """Begin another start of a directory; raise when it cannot be trusted."""
        if self.is_rotten:
            raise CorruptLogError("A checksum is wrong.")
        self._read_all(directory)
        is_other_file = directory.is_old and not directory.is_unmarked
        if is_other_file or not descends(directory.incarnation, self.witness):
            raise StaleLogError("It is an older copy.")
        directory.incarnation = directory.incarnation.next(token)
        self.witness = directory.incarnation.seen

    def _read_all(self, directory: Directory) -> None:
        """Read every batch; raise at a misdirected one. Forget those that are no more there."""
        left: dict[tuple[int, int], tuple[int, Batch]] = {}
        for partition in sorted({partition for partition, _ in self.misdirected}):
            for batch in directory.log.batches(partition, 0):
                self.found(partition, batch)
                place = partition, batch.base_offset
                if place in self.misdirected:
                    left[place] = self.misdirected[place]
        self.misdirected = left

    def replaced(self) -> None:
        """Start with an empty directory: no history and no faults."""
        self.is_rotten, self.witness = False, None
        self.misdirected.clear()


def check_place(written_at: tuple[int, int], place: tuple[int, int]) -> None:
    """Raise if data was written to another place, as the checksums of RocksDB's blocks tell it.

    They depend on the file and on the position in it (``tests/storage/test_misdirected.py``).
    """
    if written_at != place:
        raise CorruptLogError("A checksum is that of another place.")


class FaultyLog:
    """A log as its host reads it: a read may fail at any time, not only while the log is opened."""

    def __init__(self, log: MemoryLog, disk: Disk) -> None:
        self._log = log
        self._disk = disk
        self.write = log.write
        self.stored = log.stored

    def batches(self, partition: int, offset: int) -> Iterator[Batch]:
        """Iterate over the batches that end after ``offset``."""
        self._disk.read()
        batches = self._log.batches(partition, offset)
        if not self._disk.misdirected:
            return batches
        return (self._disk.found(partition, batch) for batch in batches)

    def state(self, partition: int, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the compacted state in key order."""
        self._disk.read()
        return self._log.state(partition, prefix)

    def snapshot(self, partition: int) -> Snapshot:
        """Return the compacted state as it is now."""
        self._disk.read()
        return self._log.snapshot(partition)
