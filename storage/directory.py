"""What stands in a data directory beside RocksDB's files, and what is said of its faults.

Every fault becomes one sentence that names the directory and says what to do.
"""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from storage.batch import ChecksumError
from storage.identity import LogIdentity, check, directory_id_in, render, with_directory_id
from storage.log import (
    CorruptLogError,
    ForeignLogError,
    FullDiskError,
    LockedLogError,
    LogError,
)
from storage.wal import torn_at

if TYPE_CHECKING:
    from collections.abc import Iterator

QUOTA = "Disk quota exceeded"
FULL = ("No space left on device", QUOTA)
"""How the operating system says that there is no room, wherever it is repeated."""

PROBE_BYTES = 1 << 20

DAMAGED = "damaged"
"""The file that says why a log is not to be opened again: it may open and fail later."""

REASON_CHARS_MAX = 500


def claim(directory: Path, identity: LogIdentity) -> str:
    """Check the directory's ``meta.properties``, or write them anew; return its random id."""
    note = directory / "meta.properties"
    if note.exists():
        text = note.read_text()
        check(str(directory), text, identity)
        return directory_id_in(str(directory), text)
    if (directory / "CURRENT").exists():
        raise ForeignLogError(
            f"{directory}: it holds a database without meta.properties; use another data directory."
        )
    directory_id = uuid.uuid4().hex
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _write_safely(note, with_directory_id(render(identity), directory_id))
    except OSError as error:
        raise unreadable(directory, error) from error
    return directory_id


def _write_safely(path: Path, text: str) -> None:
    """Write a file so that after a crash it is there whole or not at all."""
    draft = path.with_name(f"{path.name}.new")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cut_torn_tail(directory: Path, error: Exception) -> str:
    """Cut the incomplete last record off the write-ahead log, or refuse; return what was done.

    ``error`` is why RocksDB did not open the directory. On a full disk RocksDB gives up a file in
    the middle of a write and begins the next one, which stays empty until there is room.
    """
    said = str(error)
    if "While lock file" in said or "lock hold by" in said:
        raise LockedLogError(
            f"{directory}: another process has this log open; stop it first."
        ) from error
    if not is_corruption(said):
        raise unreadable(directory, error) from error
    ahead = [file for file in sorted(directory.glob("*.log")) if file.stat().st_size]
    if not ahead:
        raise damaged(directory, said) from error
    content = ahead[-1].read_bytes()
    at = torn_at(content)
    if at is None or at == len(content):
        raise damaged(directory, said) from error
    with ahead[-1].open("r+b") as file:
        file.truncate(at)
        os.fsync(file.fileno())
    return (
        f"{directory}: cut {len(content) - at} bytes of an unfinished write off {ahead[-1].name}; "
        "nothing acknowledged was in them."
    )


@contextmanager
def refusing_damage(directory: Path) -> Iterator[None]:
    """Turn a checksum error of ours or RocksDB's into one sentence."""
    try:
        yield
    except LogError:
        raise
    except ChecksumError as error:
        raise damaged(directory, "a batch does not match its checksum") from error
    except Exception as error:
        raise damaged(directory, str(error)) from error


def damaged(directory: Path, what: str) -> CorruptLogError:
    """Return the sentence for a log in which something is not as it was written."""
    return CorruptLogError(
        f"{directory}: the log is damaged ({what}); move the directory away, and keep it: this "
        "node begins empty then and is filled by the others."
    )


def is_corruption(said: str) -> bool:
    """Tell whether an error of RocksDB means that something is not as it was written."""
    return "Corruption" in said


def mark_damaged(directory: Path, what: str) -> CorruptLogError:
    """Have the next start find the directory damaged; return the sentence that says so.

    On a disk that takes no file the mark is missing, and the next start tries the log again.
    """
    with suppress(OSError):
        _write_safely(directory / DAMAGED, " ".join(what.split())[:REASON_CHARS_MAX])
    return damaged(directory, what)


def refuse_marked(directory: Path) -> None:
    """Raise :class:`storage.log.CorruptLogError` for a directory that was marked as damaged."""
    with suppress(FileNotFoundError):
        what = (directory / DAMAGED).read_text(errors="replace")[:REASON_CHARS_MAX]
        raise damaged(directory, what or "as a file in it says")


def unreadable(directory: Path, error: Exception) -> LogError:
    """Return the sentence for a log that can not be opened though nothing says it is damaged."""
    if is_full(str(error)):
        return no_room(directory)
    return LogError(f"{directory}: the log can not be opened ({error}).")


def is_full(said: str) -> bool:
    """Tell whether an error of the operating system or RocksDB means that there is no room."""
    return any(words in said for words in FULL)


def no_room(directory: Path) -> FullDiskError:
    """Return the sentence for a full disk."""
    return FullDiskError(
        f"{directory}: there is no room on the disk; nothing can be written until there is."
    )


def has_room(directory: Path) -> bool:
    """Try whether a small file can be written."""
    probe = directory / "room.probe"
    try:
        _write_safely(probe, " " * PROBE_BYTES)
    except OSError:
        return False
    finally:
        for left in (probe, probe.with_name(f"{probe.name}.new")):
            left.unlink(missing_ok=True)
    return True


def set_aside(directory: Path) -> Path:
    """Move a damaged directory away, to be looked at by people; return where it is now.

    What is opened in its place is empty and has another directory id.
    """
    number = 1
    while (aside := directory.with_name(f"{directory.name}.corrupt-{number}")).exists():
        number += 1
    directory.rename(aside)
    _sync_directory(directory.parent)
    return aside
