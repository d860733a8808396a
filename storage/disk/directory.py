"""The files in a data directory other than RocksDB's, and the errors about a directory.

Every error is one sentence that names the directory and says what to do.
"""

from __future__ import annotations

import errno
import glob
import os
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from storage.batch import ChecksumError
from storage.disk.identity import LogIdentity, check, directory_id_in, render, with_directory_id
from storage.disk.wal import torn_at
from storage.disk.witness import NOTE
from storage.log import (
    CorruptLogError,
    ForeignLogError,
    FullDiskError,
    LockedLogError,
    LogError,
    StaleLogError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

QUOTA = "Disk quota exceeded"
FULL = ("No space left on device", QUOTA)
"""The operating system's messages for a full disk; RocksDB's errors repeat them."""

LOCKED = "Resource temporarily unavailable"
MISSING = "No such file or directory"
"""Its message when another process holds a lock, and when a file is gone that should exist."""

PROBE_BYTES = 1 << 20

CURRENT = "CURRENT"
ROWS = ("*.sst", "*.log")
"""RocksDB's files: the one that names the current manifest, and those that hold rows."""

DAMAGED = "damaged"
STALE = "stale"
"""Files that say why a log must not be opened again: it might open now and fail later."""

REASONS = ("corrupt", "stale")
"""Why a log is set aside; the directory's new name says it."""

REASON_CHARS_MAX = 500
MOVE_AWAY = (
    "move the directory away, and keep it: this node begins empty then and is filled by the others."
)


def claim(directory: Path, identity: LogIdentity) -> str:
    """Check the ``meta.properties`` of a directory, or write them; return the directory's id.

    Nothing is changed in a directory that is refused.
    """
    note = directory / NOTE
    try:
        if note.exists():
            text = note.read_text(errors="replace")
            check(str(directory), text, identity)
            _check_whole(directory)
            return directory_id_in(str(directory), text)
        if _holds_database(directory):
            raise ForeignLogError(
                f"{directory}: it holds a database without {NOTE}; put that file back or use "
                "another data directory."
            )
        directory.mkdir(parents=True, exist_ok=True)
        return renew(directory, identity)
    except OSError as error:
        raise unreadable(directory, error) from error


def renew(directory: Path, identity: LogIdentity) -> str:
    """Give a directory without a database an id and return it. Raises OSError."""
    directory_id = uuid.uuid4().hex
    _write_safely(directory / NOTE, with_directory_id(render(identity), directory_id))
    return directory_id


def _holds_database(directory: Path) -> bool:
    """Whether there are files that RocksDB would open or overwrite."""
    found = (next(directory.glob(pattern), None) for pattern in (CURRENT, *ROWS))
    return any(file is not None for file in found)


def _check_whole(directory: Path) -> None:
    """Refuse a database that lacks files which RocksDB itself does not miss.

    Without ``CURRENT`` it would create an empty database, and it ignores a missing write-ahead log.
    """
    if (directory / CURRENT).exists():
        if next(directory.glob("*.sst"), None) and not next(directory.glob("*.log"), None):
            raise damaged(directory, "its write-ahead log, *.log, is missing")
    elif _holds_database(directory):
        raise damaged(directory, f"its file {CURRENT} is missing")


def _write_safely(path: Path, text: str) -> None:
    """Write a file so that after a crash it exists completely or not at all."""
    draft = path.with_name(f"{path.name}.new")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Wait until the names of the files in a directory are on disk. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cut_torn_tail(directory: Path, error: Exception) -> str:
    """Cut the incomplete last record off the write-ahead log, or refuse; return what was done.

    ``error`` is the reason why RocksDB did not open the directory. On a full disk RocksDB stops a
    file in the middle of a write and begins the next one, which stays empty until there is room.
    """
    said = str(error)
    if LOCKED in said or "lock hold by" in said:
        raise LockedLogError(
            f"{directory}: another process has this log open; stop it first."
        ) from error
    if MISSING in said:
        raise damaged(directory, said) from error
    if not is_corruption(said):
        raise unreadable(directory, error) from error
    ahead = [file for file in sorted(directory.glob("*.log")) if file.stat().st_size]
    if not ahead:
        raise damaged(directory, said) from error
    content = ahead[-1].read_bytes()
    at = torn_at(content, int(ahead[-1].stem))
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
    """Turn a checksum error, ours or RocksDB's, into an error about the directory."""
    try:
        yield
    except LogError:
        raise
    except ChecksumError as error:
        raise damaged(directory, "a batch does not match its checksum") from error
    except Exception as error:
        raise damaged(directory, str(error)) from error


def damaged(directory: Path, what: str) -> CorruptLogError:
    """Return the error for a log that contains damaged data."""
    return CorruptLogError(f"{directory}: the log is damaged ({what}); {MOVE_AWAY}")


def stale(directory: Path, why: str) -> StaleLogError:
    """Return the error for a directory that is not the newest state of itself."""
    return StaleLogError(
        f"{directory}: it is a copy and not the newest state of this node's log ({why}); put the "
        f"newest one back, or {MOVE_AWAY}"
    )


def is_corruption(said: str) -> bool:
    """Return whether an error of RocksDB means that data is damaged."""
    return "Corruption" in said


def mark_damaged(directory: Path, what: str) -> CorruptLogError:
    """Mark the directory as damaged for the next start; return the error."""
    _mark(directory, DAMAGED, what)
    return damaged(directory, what)


def mark_stale(directory: Path, why: str) -> StaleLogError:
    """Mark the directory as an outdated copy for the next start; return the error."""
    _mark(directory, STALE, why)
    return stale(directory, why)


def _mark(directory: Path, name: str, why: str) -> None:
    """Write a mark. On a full disk it will be missing: the next start then tries the log."""
    with suppress(OSError):
        _write_safely(directory / name, " ".join(why.split())[:REASON_CHARS_MAX])


def refuse_marked(directory: Path) -> None:
    """Raise the error of a directory that was marked as damaged or as a copy."""
    for name, error in ((DAMAGED, damaged), (STALE, stale)):
        with suppress(FileNotFoundError):
            why = (directory / name).read_text(errors="replace")[:REASON_CHARS_MAX]
            raise error(directory, why or "as a file in it says")


def unreadable(directory: Path, error: Exception) -> LogError:
    """Return the error for a log that cannot be opened, although no damage was found."""
    if is_full(str(error)):
        return no_room(directory)
    return LogError(f"{directory}: the log cannot be opened ({error}).")


def is_full(said: str) -> bool:
    """Return whether an error of the operating system or RocksDB means a full disk."""
    return any(words in said for words in FULL)


def no_room(directory: Path) -> FullDiskError:
    """Return the error for a full disk."""
    return FullDiskError(
        f"{directory}: there is no room on the disk; nothing can be written until there is."
    )


def has_room(directory: Path) -> bool:
    """Return whether a small file can be written, by trying it."""
    probe = directory / "room.probe"
    try:
        _write_safely(probe, " " * PROBE_BYTES)
    except OSError:
        return False
    finally:
        for left in (probe, probe.with_name(f"{probe.name}.new")):
            left.unlink(missing_ok=True)
    return True


def set_aside(directory: Path, why: str = "corrupt") -> Path:
    """Move a directory away for inspection; return its new path.

    The directory created in its place is empty and has another directory id. A symbolic link is
    followed, so that the new directory is on the same disk; the content of a mount point is moved
    to a directory inside it.
    """
    directory = directory.resolve()
    number = 1
    while (aside := directory.with_name(f"{directory.name}.{why}-{number}")).exists():
        number += 1
    try:
        directory.rename(aside)
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.EXDEV):
            raise
        return _set_aside_within(directory, why)
    directory.mkdir()
    sync_directory(directory.parent)
    return aside


def _set_aside_within(directory: Path, why: str) -> Path:
    number = 1
    while (aside := directory / f"{why}-{number}").exists():
        number += 1
    aside.mkdir()
    for entry in list(directory.iterdir()):
        if not _is_aside(entry):
            entry.rename(aside / entry.name)
    sync_directory(directory)
    return aside


def asides(directory: Path) -> list[Path]:
    """Return the directories into which a log was moved by :func:`set_aside`. Raises OSError."""
    directory = directory.resolve()
    found = [*directory.parent.glob(f"{glob.escape(directory.name)}.*-*")]
    found = [each for each in found if each.suffix[1:].partition("-")[0] in REASONS]
    within = [each for each in directory.iterdir() if each.name.partition("-")[0] in REASONS]
    return [each for each in (*found, *within) if each.is_dir()]


def _is_aside(entry: Path) -> bool:
    first = entry.name.partition("-")[0]
    return entry.is_dir() and first in (*REASONS, "lost+found")
