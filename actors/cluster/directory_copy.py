"""One host's part in copying a coordinator's directory to another host, a piece at a time.

The coordinator does not run meanwhile. What arrives is kept beside the final place until it is
complete. It then counts as the newest state of the directory
(:mod:`storage.disk.incarnation`), as its last start is the one that was seen last.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Final

from actors.waiting import is_answered, poll
from storage.disk import witness
from storage.disk.directory import set_aside, sync_directory
from storage.disk.identity import directory_id_in
from storage.disk.incarnation import Incarnation
from storage.log import LogError

if TYPE_CHECKING:
    from pathlib import Path

NODE: Final = "node-"
REPLACED: Final = "replaced"
"""The reason why a directory was moved aside: its coordinator went to another host since."""

INCOMING: Final = ".incoming"
LOCK: Final = "LOCK"
"""The file by which RocksDB keeps a second process out."""

NOT_COPIED: Final = (LOCK, "LOG")
"""The beginnings of the names of files that a database does without: its lock and its messages."""

CLOSED_S: Final = 10.0
"""How long the process of a stopped coordinator may take to end."""

PIECE_BYTES: Final = 1 << 20
SPARE_BYTES: Final = 64 << 20
"""Space that must be left on the disk after a copy."""


@dataclass(frozen=True, slots=True)
class DirectoryContent:
    """The files of a directory with their sizes in bytes, and the text of its witness."""

    files: tuple[tuple[str, int], ...]
    witness: str = field(repr=False)

    @property
    def size_bytes(self) -> int:
        """How much there is to copy."""
        return sum(size for _, size in self.files)


class DirectoryCopier:
    """Reads and writes the coordinators' directories of one host.

    Methods that can fail return a sentence instead of their result: errors do not travel well.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._locks: dict[int, IO[str]] = {}

    def content(self, node_id: int) -> DirectoryContent | str:
        """List a coordinator's directory; while the coordinator runs, it changes."""
        path = self._path(node_id)
        try:
            files = tuple(
                (file.name, file.stat().st_size)
                for file in sorted(path.iterdir())
                if file.is_file() and not file.name.startswith(NOT_COPIED)
            )
            return DirectoryContent(files, witness.path_beside(path).read_text())
        except OSError as error:
            return f"{path} cannot be copied: {error}."

    def lend(self, node_id: int) -> DirectoryContent | str:
        """List a stopped coordinator's directory; keep it closed until :meth:`take_back`."""
        try:
            self._lock(node_id)
        except OSError as error:
            return f"{self._path(node_id)} cannot be copied, as it is in use: {error}."
        return self.content(node_id)

    def take_back(self, node_id: int) -> str:
        """Let a coordinator open its directory again; return ""."""
        if lock := self._locks.pop(node_id, None):
            lock.close()
        return ""

    def _lock(self, node_id: int) -> None:
        """Take RocksDB's lock; wait a little, as a process that was just stopped may hold it."""
        if node_id in self._locks:
            return
        lock = (self._path(node_id) / LOCK).open("a")
        try:
            poll(
                lambda: fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB),
                CLOSED_S,
                is_done=is_answered,
                retry=(OSError,),
            )
        except OSError:
            lock.close()
            raise
        self._locks[node_id] = lock

    def read(self, node_id: int, name: str, offset: int) -> bytes | str:
        """Return a piece of a file; empty at its end."""
        file = self._path(node_id) / name
        try:
            with file.open("rb") as content:
                content.seek(offset)
                return content.read(PIECE_BYTES)
        except OSError as error:
            return f"{file} cannot be read: {error}."

    def checksum(self, node_id: int, name: str) -> bytes | str:
        """Return the SHA-256 of a file that was lent."""
        return _checksum(self._path(node_id) / name)

    def expect(self, node_id: int, size_bytes: int) -> str:
        """Prepare for a copy, without what is left of an earlier one; return a sentence or ""."""
        path, incoming = self._path(node_id), self._incoming(node_id)
        try:
            if path.is_symlink() or path.is_mount():
                return f"{path} is a link or a mount point: remove it."
            free = shutil.disk_usage(self._directory).free
            if free < (needed := size_bytes + SPARE_BYTES):
                return (
                    f"{path} needs {needed >> 20} MiB on the disk, "
                    f"of which {free >> 20} MiB are free."
                )
            if incoming.exists():
                shutil.rmtree(incoming)
            incoming.mkdir()
        except OSError as error:
            return f"{incoming} cannot be written: {error}."
        return ""

    def append(self, node_id: int, name: str, piece: bytes) -> str:
        """Write a piece of a file behind the one before; return a sentence or ""."""
        file = self._incoming(node_id) / name
        try:
            with file.open("ab") as content:
                content.write(piece)
        except OSError as error:
            return f"{file} cannot be written: {error}."
        return ""

    def arrived(self, node_id: int, name: str) -> bytes | str:
        """Sync a file that arrived; return the SHA-256 of what is there now."""
        file = self._incoming(node_id) / name
        try:
            with file.open("ab") as content:
                os.fsync(content.fileno())
        except OSError as error:
            return f"{file} cannot be written: {error}."
        return _checksum(file)

    def install(self, node_id: int, text: str) -> str:
        """Put a complete copy in its place; return a sentence or "".

        ``text`` is the original's witness. A directory that is there already is older, and is moved
        aside.
        """
        path, incoming = self._path(node_id), self._incoming(node_id)
        try:
            known, start = _witnessed(incoming, text)
            sync_directory(incoming)
            if path.exists():
                set_aside(path, REPLACED)
                path.rmdir()
            incoming.rename(path)
            witness.save(path, known, start)  # it syncs the directory of both, too
        except (OSError, LogError, ValueError) as error:
            return f"{path} cannot be put in place: {error}."
        return ""

    def set_aside(self, node_id: int, why: str) -> str:
        """Move a node's directory aside, if there is one; return a sentence or ""."""
        path = self._path(node_id)
        try:
            if path.exists():
                set_aside(path, why)
        except (OSError, LogError) as error:
            return f"{path} cannot be moved aside: {error}."
        return ""

    def _path(self, node_id: int) -> Path:
        return self._directory / f"{NODE}{node_id}"

    def _incoming(self, node_id: int) -> Path:
        return self._directory / f"{NODE}{node_id}{INCOMING}"


def _witnessed(directory: Path, text: str) -> tuple[witness.Witness, Incarnation]:
    """Return what a witness knows, and the last start of this directory, as far as it knows it."""
    beside = witness.path_beside(directory)
    beside.write_text(text)
    known = witness.load(directory)
    beside.unlink()
    directory_id = directory_id_in(str(directory), (directory / witness.NOTE).read_text())
    for name, number, token in known.starts.rows():
        if name == directory_id:
            return known, Incarnation(name, number, (token,))
    raise ValueError("the file beside the original does not know it")


def _checksum(file: Path) -> bytes | str:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").digest()
    except OSError as error:
        return f"{file} cannot be read: {error}."
