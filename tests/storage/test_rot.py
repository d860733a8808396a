"""Damage that only a compaction meets ends in one refusal, not in one restart after the other."""

import os
from pathlib import Path

import pytest

from storage.batch import Batch, pack
from storage.disk.database import OFFSET, PREFIX
from storage.disk.rocks import RocksLog
from storage.log import AppendBatch, ApplyState, CorruptLogError, DropBefore, LogError
from tests.storage.dying_writer import IDENTITY

pytestmark = pytest.mark.thorough


RECORD_BYTES = 2_000
LIVES = 5


class Writer:
    """Appends batches and drops them again, as a leader does whose state keeps up."""

    def __init__(self, log: RocksLog) -> None:
        self.log = log
        self.at = log.stored(0).end_offset

    def append(self, batches: int) -> None:
        for _ in range(batches):
            batch = Batch(self.at, 1, 0, ((b"%d" % (self.at % 100), os.urandom(RECORD_BYTES)),))
            self.log.write([AppendBatch(0, batch)], False)
            self.at = batch.end_offset

    def drop(self, keep: int) -> None:
        applied = ApplyState(0, self.at, 1, [(b"key", b"value")])
        self.log.write([applied, DropBefore(0, self.at - keep)], False)

    def flush(self) -> None:
        for family in self.log._families.values():
            family.flush()


@pytest.fixture
def rotten(tmp_path: Path) -> Path:
    """A directory with one wrong bit among rows that a range deletion covers."""
    path = tmp_path / "log"
    log = RocksLog.open(path, IDENTITY)
    writer = Writer(log)
    writer.append(1_500)
    writer.flush()
    table = max(path.glob("*.sst"), key=lambda file: file.stat().st_size)
    writer.drop(keep=1)
    writer.append(10)
    writer.flush()
    log.close()
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    return path


def test_damage_met_by_a_compaction_is_known_at_the_next_start(rotten: Path) -> None:
    """S8: the log opened well, the next compaction failed a write, and so on for ever."""
    failed = 0
    for _ in range(LIVES):
        try:
            log = RocksLog.open(rotten, IDENTITY)
        except CorruptLogError as error:
            assert failed == 1, "one failed life is enough"
            assert "Corruption" in str(error) and "\n" not in str(error)
            return
        writer = Writer(log)
        try:
            for _ in range(60):
                writer.append(400)
                writer.drop(keep=300)
        except LogError as error:
            assert isinstance(error, CorruptLogError)
            failed += 1
        log.close()
    raise AssertionError("the damage was never found, or never remembered")


def test_any_error_that_says_corruption_marks_the_directory(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = RocksLog.open(path, IDENTITY)

    class Broken:
        def write(self, *_: object) -> None:
            raise RuntimeError("Corruption: block checksum\nmismatch")

        def close(self) -> None:
            pass

    whole, log._database = log._database, Broken()
    with pytest.raises(CorruptLogError):
        log.write([], True)
    log._database = whole
    log.close()
    with pytest.raises(CorruptLogError, match=r"\(Corruption: block checksum mismatch\)"):
        RocksLog.open(path, IDENTITY)


def test_damage_that_a_reader_meets_is_known_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = RocksLog.open(path, IDENTITY)
    writer = Writer(log)
    writer.append(3)
    key = PREFIX.pack(1) + OFFSET.pack(1)
    log._families["log"].put(key, b"no envelope")
    with pytest.raises(CorruptLogError):
        list(log.batches(0, 0))
    log._families["log"].put(key, pack(Batch(1, 1, 0, ((b"key", b"value"),))))
    log.close()
    with pytest.raises(CorruptLogError):
        RocksLog.open(path, IDENTITY)


def test_a_mark_that_says_nothing_still_counts(tmp_path: Path) -> None:
    RocksLog.open(tmp_path / "log", IDENTITY).close()
    (tmp_path / "log" / "damaged").write_bytes(b"")
    with pytest.raises(CorruptLogError):
        RocksLog.open(tmp_path / "log", IDENTITY)
