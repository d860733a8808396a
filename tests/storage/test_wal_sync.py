"""Syncs of RocksDB's write-ahead log from a thread: which files they cover, and when they end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from storage.disk.rocks import RocksLog
from storage.disk.wal_sync import PendingSync
from storage.log import AppendBatch, CorruptLogError, LogError
from tests.storage.dying_writer import IDENTITY, batch

pytestmark = pytest.mark.thorough


@pytest.fixture
def log(tmp_path: Path) -> RocksLog:
    return RocksLog.open(tmp_path / "log", IDENTITY)


def append(log: RocksLog, offset: int, size: int = 200) -> None:
    log.write([AppendBatch(0, batch(offset, size))], sync=False)


def names(sync: PendingSync) -> list[str]:
    """Return the files that a sync covers, the directory as an empty name."""
    paths = (Path(os.readlink(f"/proc/self/fd/{number}")) for number in sync.descriptors)
    return [path.name if path.suffix == ".log" else "" for path in paths]


def test_a_sync_reaches_to_the_end_of_what_was_written_before_it_began(log: RocksLog) -> None:
    append(log, 0)
    sync = log.begin_sync()
    append(log, 1)
    sync.run()
    log.end_sync(sync)
    after = log.begin_sync()
    assert after.number == sync.number
    assert 0 < sync.bytes < after.bytes
    log.close()


def test_a_new_file_is_synced_with_its_directory_and_once_only(log: RocksLog) -> None:
    append(log, 0)
    first = log.begin_sync()
    assert "" in names(first), "the directory names the file"
    log.end_sync(first)
    append(log, 1)
    again = log.begin_sync()
    assert names(again) == names(first)[:1]
    log.end_sync(again)
    log.close()


def test_a_file_that_was_rotated_away_is_synced_once_more(log: RocksLog) -> None:
    append(log, 0)
    sync = log.begin_sync()
    log.end_sync(sync)
    newest, offset = sync.number, 1
    while newest == sync.number:
        append(log, offset, 1 << 20)
        offset += 1
        log._families["meta"].flush()
        newest = max(log._wal._numbers())
        if newest == sync.number and offset > 40:
            pytest.fail("the write-ahead log was never rotated")
    after = log.begin_sync()
    assert names(after)[0] == f"{sync.number:06}.log", "what came after the last sync is in it"
    assert names(after)[-1] == "" and after.number > sync.number
    after.run()
    log.end_sync(after)
    assert f"{sync.number:06}.log" not in names(log.begin_sync())
    log.close()


PAGE = 4096


def leave_unsynced_pages(path: str) -> None:
    """Sync ten batches, write pages that no sync covers, say where they begin, and die."""
    log = RocksLog.open(path, IDENTITY)
    for offset in range(10):
        append(log, offset, 1_000)
    sync = log.begin_sync()
    sync.run()
    log.end_sync(sync)
    for offset in range(10, 30):
        append(log, offset, 1_000)
    os.write(1, b"%d %d" % (sync.number, sync.bytes))
    os._exit(9)


@pytest.fixture
def left(tmp_path: Path) -> tuple[Path, int]:
    """The file that such a writer leaves, and where its synced part ends."""
    script = f"from {__name__} import *; leave_unsynced_pages({str(tmp_path / 'log')!r})"
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout.split()
    return tmp_path / "log" / f"{int(said[0]):06}.log", int(said[1])


def without_page(file: Path, at: int) -> None:
    """Let a page of zeros stand where one never reached the disk."""
    content = bytearray(file.read_bytes())
    content[at : at + PAGE] = bytes(PAGE)
    file.write_bytes(content)


def test_a_page_that_no_sync_covered_and_that_is_lost_is_a_torn_tail(
    left: tuple[Path, int],
) -> None:
    file, synced = left
    without_page(file, -(-synced // PAGE) * PAGE)
    again = RocksLog.open(file.parent, IDENTITY)
    assert "unfinished write" in again.notes[0]
    end_offset = again.stored(0).end_offset
    assert 10 <= end_offset < 30
    assert [found.base_offset for found in again.batches(0, 0)] == list(range(end_offset))
    again.close()


def test_a_page_that_a_sync_had_covered_and_that_is_lost_is_damage(left: tuple[Path, int]) -> None:
    file, synced = left
    without_page(file, synced // PAGE * PAGE - PAGE)
    with pytest.raises(CorruptLogError):
        RocksLog.open(file.parent, IDENTITY)


def test_a_changed_bit_is_damage_whether_a_sync_had_covered_it_or_not(
    left: tuple[Path, int],
) -> None:
    file, synced = left
    content = bytearray(file.read_bytes())
    content[synced + 2_000] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptLogError):
        RocksLog.open(file.parent, IDENTITY)


def test_a_directory_that_can_not_be_read_is_an_error_of_the_log(log: RocksLog) -> None:
    append(log, 0)
    os.rename(log._path, log._path.with_name("gone"))
    with pytest.raises(LogError, match="cannot be synced"):
        log.begin_sync()
