"""Syncs RocksDB's write-ahead log from a thread, while RocksDB goes on writing to it.

RocksDB passes every write to the operating system before it returns, so ``fdatasync`` of the files
makes every write durable that was made before the sync began. RocksDB writes only to the newest
file; an older file is synced once more, and never again. RocksDB deletes a file only when its
content is durable elsewhere. A new file also needs a sync of its directory.

A failed sync is never repeated: the operating system may have dropped what it could not write, and
the next sync would succeed without it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SUFFIX = ".log"


@dataclass(frozen=True, slots=True)
class PendingSync:
    """One sync that has begun: the files to sync, by descriptor, and the extent of the sync.

    Afterwards everything before ``bytes`` of file ``number``, and in older files, is durable.
    """

    number: int
    bytes: int
    descriptors: Sequence[int]

    def run(self) -> None:
        """Sync, in any thread. Raises OSError: the content of the disk is unknown then."""
        for descriptor in self.descriptors:
            os.fdatasync(descriptor)


class WalSync:
    """The write-ahead log files of one open database, oldest first. One sync at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[int, int] = {}
        self._directory_descriptor = os.open(directory, os.O_RDONLY)

    def begin(self) -> PendingSync:
        """Return the sync of all writes so far. Raises OSError."""
        newest_before = max(self._open, default=-1)
        for number in self._numbers():
            if number >= newest_before and number not in self._open:
                with suppress(FileNotFoundError):  # just deleted: its content is durable elsewhere
                    self._open[number] = os.open(self._path(number), os.O_RDONLY)
        descriptors = list(self._open.values())
        newest = max(self._open, default=-1)
        if newest != newest_before:
            descriptors.append(self._directory_descriptor)
        size = os.fstat(self._open[newest]).st_size if self._open else 0
        return PendingSync(newest, size, descriptors)

    def end(self, sync: PendingSync) -> None:
        """Note that a sync is done; files older than its newest need no further sync."""
        for number in [number for number in self._open if number < sync.number]:
            os.close(self._open.pop(number))

    def close(self) -> None:
        """Close the files. No sync may be under way."""
        for descriptor in (*self._open.values(), self._directory_descriptor):
            os.close(descriptor)
        self._open.clear()

    def _numbers(self) -> list[int]:
        names = os.listdir(self._directory)
        stems = (name[: -len(SUFFIX)] for name in names if name.endswith(SUFFIX))
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:06}{SUFFIX}"
