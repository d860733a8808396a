"""Data that was written to another place is found by its checksum or its order, never believed.

The simulator relies on it (``failover/simulation/nodes/disks.py``): it lets such data be refused.
"""

import os
import shutil
from pathlib import Path

import pytest

from storage.batch import Batch
from storage.disk.rocks import RocksLog
from storage.disk.wal import BLOCK
from storage.log import AppendBatch, ApplyState, CorruptLogError, LogError
from tests.storage.dying_writer import IDENTITY

pytestmark = pytest.mark.thorough

RECORD_BYTES = 5_000
"""More than a block of a table: each batch has one of its own."""

BATCHES = 40
FILLS_A_BLOCK = BLOCK - 61
"""So long a record fills a block of the write-ahead log, with what is stored with it."""


def append(log: RocksLog, record_bytes: int, count: int = 1) -> None:
    at = log.stored(0).end_offset
    for offset in range(at, at + count):
        batch = Batch(offset, 1, 0, ((b"key", os.urandom(record_bytes)),))
        log.write([AppendBatch(0, batch)], False)


def move(path: Path, to: int, content: bytes) -> None:
    whole = bytearray(path.read_bytes())
    assert whole[to : to + len(content)] != content
    whole[to : to + len(content)] = content
    path.write_bytes(whole)


def is_refused(path: Path) -> bool:
    try:
        RocksLog.open(path, IDENTITY).close()
    except CorruptLogError:
        return True
    return False


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    """Two tables of the same layout, in one directory."""
    path = tmp_path / "log"
    log = RocksLog.open(path, IDENTITY)
    for _ in range(2):
        append(log, RECORD_BYTES, BATCHES)
        log._families["log"].flush()
    log.close()
    return sorted(path.glob("*.sst"), key=lambda file: file.stat().st_size)[-2:]


def test_a_whole_block_of_a_table_at_the_place_of_another_is_refused(tables: list[Path]) -> None:
    content = tables[0].read_bytes()
    block_bytes = (len(content) - len(content) % BATCHES) // BATCHES
    while content[3 * block_bytes : 3 * block_bytes + 8] != content[7 * block_bytes :][:8]:
        block_bytes -= 1  # a block begins as every other one does
        assert block_bytes > RECORD_BYTES
    move(tables[0], 3 * block_bytes, content[7 * block_bytes : 8 * block_bytes])
    assert is_refused(tables[0].parent)


@pytest.mark.parametrize("sector_bytes", [512, 4_096, 16_384])
def test_a_sector_of_another_table_at_the_same_place_is_refused(
    tables: list[Path], sector_bytes: int
) -> None:
    other = tables[1].read_bytes()
    move(tables[0], 65_536, other[65_536 : 65_536 + sector_bytes])
    assert is_refused(tables[0].parent)


@pytest.mark.parametrize(("what", "at"), [(1, 5), (5, 1), (0, 3), (3, 2), (2, 7)])
@pytest.mark.parametrize("record_bytes", [700, 4_000, FILLS_A_BLOCK, 2 * BLOCK])
def test_a_block_of_the_write_ahead_log_at_the_place_of_another_is_refused(
    tmp_path: Path, record_bytes: int, what: int, at: int
) -> None:
    """Its checksums do not cover the place; what it holds does not follow what is before it."""
    log = RocksLog.open(tmp_path / "log", IDENTITY)
    while written(tmp_path / "log").stat().st_size < 10 * BLOCK:
        append(log, record_bytes)
        state = [(b"key %d" % (log.stored(0).end_offset % 3), os.urandom(100))]
        log.write([ApplyState(0, log.stored(0).end_offset, 1, state)], False)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path, copy, ignore=shutil.ignore_patterns("copy"))
    log.close()
    content = written(copy / "log").read_bytes()
    move(written(copy / "log"), at * BLOCK, content[what * BLOCK : (what + 1) * BLOCK])
    assert is_refused(copy / "log")


def test_the_copy_alone_is_not_refused(tmp_path: Path) -> None:
    log = RocksLog.open(tmp_path / "log", IDENTITY)
    append(log, RECORD_BYTES, BATCHES)
    shutil.copytree(tmp_path, tmp_path / "copy", ignore=shutil.ignore_patterns("copy"))
    log.close()
    try:
        assert not is_refused(tmp_path / "copy" / "log")
    except LogError as error:
        raise AssertionError(f"another reason to refuse: {error}") from error


def written(path: Path) -> Path:
    """Return the write-ahead log that is written now."""
    return max(path.glob("*.log"), key=lambda file: file.stat().st_size)
