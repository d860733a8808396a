"""A node's disk: one directory's log and what its starts are known by, and how bad it is.

What the process opens is judged as in life: a log whose checksums are wrong, or that is a copy
(:mod:`storage.disk.incarnation`), is left alone until the others have everything without it.
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
    """What one directory holds; ``is_old`` is what nobody inside knows: it is an older copy.

    A copy has not the hard link that the file beside it knows, unless it is ``is_unmarked``: then
    the whole machine is an older one.
    """

    directory_id: str
    log: MemoryLog
    incarnation: Incarnation
    memory: SeenIncarnations = field(default_factory=SeenIncarnations)
    is_old: bool = False
    is_unmarked: bool = False

    def copy(self) -> Directory:
        """Return the directory as a backup would have it: all that was synced."""
        return Directory(
            self.directory_id,
            self.log.copied(),
            self.incarnation,
            SeenIncarnations(self.memory.rows()),
            is_old=True,
        )


@dataclass(slots=True, eq=False)
class Disk:
    """What is wrong with a node's disk, now; ``witness`` is the file beside the directory.

    ``sync_ms`` is how long a sync takes at least and at most, where that is not as the settings
    say. ``fails_writes``, ``fails_syncs`` and ``fails_reads`` count those that are yet to fail.
    """

    sync_ms: tuple[int, int] | None = None
    is_full: bool = False
    fails_writes: int = 0
    fails_syncs: int = 0
    fails_reads: int = 0
    is_rotten: bool = False
    witness: SeenStart | None = None

    def write(self) -> None:
        """Raise what a write raises now."""
        if self.is_full:
            raise FullDiskError("The simulated disk is full.")
        if self.fails_writes:
            self.fails_writes -= 1
            raise LogError("The simulated disk failed a write.")

    def read(self) -> None:
        """Raise what a read raises now."""
        if self.fails_reads:
            self.fails_reads -= 1
            raise CorruptLogError("A sector of the simulated disk cannot be read.")

    def sync(self, usual_ms: tuple[int, int], more_ms: int, rng: random.Random) -> int | None:
        """Draw how long a sync takes, ``more_ms`` longer than else; None: no time at all.

        Raises what a sync raises now.
        """
        low, high = self.sync_ms or usual_ms
        if self.fails_syncs:
            self.fails_syncs -= 1
            raise LogError("The simulated disk failed a sync.")
        if not high + more_ms:
            return None
        return low + more_ms + int(rng.random() * (high - low + 1))

    def open(self, directory: Directory, token: str) -> None:
        """Begin another start of a directory; raises when it cannot be trusted."""
        if self.is_rotten:
            raise CorruptLogError("A checksum is wrong.")
        is_other_file = directory.is_old and not directory.is_unmarked
        if is_other_file or not descends(directory.incarnation, self.witness):
            raise StaleLogError("It is an older copy.")
        directory.incarnation = directory.incarnation.next(token)
        self.witness = directory.incarnation.seen

    def replaced(self) -> None:
        """Begin with an empty directory: nothing is known of it, and nothing is wrong with it."""
        self.is_rotten, self.witness = False, None


class FaultyLog:
    """A log as its host reads it: a read may fail at any time, not only when the log is opened."""

    def __init__(self, log: MemoryLog, disk: Disk) -> None:
        self._log = log
        self._disk = disk
        self.write = log.write
        self.stored = log.stored

    def batches(self, partition: int, offset: int) -> Iterator[Batch]:
        """Iterate over the batches that end after ``offset``."""
        self._disk.read()
        return self._log.batches(partition, offset)

    def state(self, partition: int, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the compacted state in key order."""
        self._disk.read()
        return self._log.state(partition, prefix)

    def snapshot(self, partition: int) -> Snapshot:
        """Return the compacted state as it is now."""
        self._disk.read()
        return self._log.snapshot(partition)
