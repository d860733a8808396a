"""The file next to a log's directory that tells the directory from a copy of it.

``node-0.incarnation`` is next to ``node-0``. It records the last start of the directory, and the
inode of its ``meta.properties``, which reveals a copy that was made while the node ran. A hard link
to that file, ``node-0.mark``, keeps the inode from being reused.

When the file next to the directory is itself a copy (its own inode is not the one recorded in it),
the whole data directory was copied, and inodes prove nothing; the last start is still compared.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from storage.disk.incarnation import SeenIncarnations

if TYPE_CHECKING:
    from pathlib import Path

    from storage.disk.incarnation import Incarnation

NOTE: Final = "meta.properties"
ACCEPTED_STARTS: Final = 1_000
"""The number of a start jumps by this much when a copy is accepted: no peer can judge it then."""


@dataclass(slots=True)
class Witness:
    """The record stored next to one directory. ``inodes`` are by directory id."""

    starts: SeenIncarnations = field(default_factory=SeenIncarnations)
    inodes: dict[str, int] = field(default_factory=dict)
    is_original: bool = False
    is_accepting: bool = False


def path_beside(directory: Path) -> Path:
    """Return the path of a directory's witness."""
    return directory.with_name(f"{directory.name}.incarnation")


def load(directory: Path) -> Witness:
    """Read the witness; return an empty one when there is none, or it cannot be read."""
    file = path_beside(directory)
    try:
        row = json.loads(file.read_text())
        starts = [(str(name), int(number), str(token)) for name, number, token in row["starts"]]
        inodes = {str(name): int(inode) for name, inode in row["inodes"].items()}
        is_original = int(row["inode"]) == file.stat().st_ino
        return Witness(SeenIncarnations(starts), inodes, is_original, bool(row["accepts"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Witness()


def objection(directory: Path, witness: Witness, last: Incarnation) -> str:
    """Return why a directory is not the newest state of itself; empty when it may be.

    ``last`` is the last start that the directory itself has recorded; number 0: none.
    """
    name = last.directory_id
    if witness.is_accepting:
        return ""
    if name not in {known for known, _, _ in witness.starts.rows()}:
        return f"{path_beside(directory).name} beside it does not know it" if last.number else ""
    if not witness.starts.judge(last):
        return "it has been started since the copy was made"
    inode = witness.inodes.get(name)
    if witness.is_original and inode is not None and inode != (directory / NOTE).stat().st_ino:
        return "its files are not the ones that were written here"
    return ""


def save(directory: Path, witness: Witness, start: Incarnation) -> None:
    """Record a start. Raises OSError."""
    note = directory / NOTE
    witness.is_accepting = False
    witness.starts.learn(start)
    known = {name for name, _, _ in witness.starts.rows()}
    witness.inodes[start.directory_id] = note.stat().st_ino
    witness.inodes = {name: inode for name, inode in witness.inodes.items() if name in known}
    _write(directory, witness)
    _pin(directory, note)


def accept(directory: Path) -> None:
    """Make the next start accept a directory as the newest state of itself, whatever it is.

    Records acknowledged after the copy was made are lost if too many directories are old copies.
    """
    witness = load(directory)
    witness.is_accepting = True
    _write(directory, witness)


def _write(directory: Path, witness: Witness) -> None:
    file = path_beside(directory)
    draft = file.with_name(f"{file.name}.new")
    with draft.open("w") as out:
        row = {
            "inode": os.fstat(out.fileno()).st_ino,
            "accepts": witness.is_accepting,
            "starts": witness.starts.rows(),
            "inodes": witness.inodes,
        }
        out.write(json.dumps(row, indent=2) + "\n")
        out.flush()
        os.fsync(out.fileno())
    draft.rename(file)
    descriptor = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _pin(directory: Path, note: Path) -> None:
    """Keep the inode of a file in use; skip this on another file system, where it is impossible."""
    mark = directory.with_name(f"{directory.name}.mark")
    with suppress(OSError):
        if mark.exists() and mark.stat().st_ino == note.stat().st_ino:
            return
        mark.unlink(missing_ok=True)
        os.link(note, mark)
