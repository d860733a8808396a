"""A full disk: what is refused, what goes on, and what is there when space has returned."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.batch import Batch
from storage.disk.directory import QUOTA
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
from storage.log import AppendBatch, ApplyState, FullDiskError, LogError, SaveVote
from tests.small_disk import MIB, fill, mounted
from tests.waiting import until

pytestmark = pytest.mark.thorough


IDENTITY = LogIdentity(cluster_id="cluster", node_id=0, partitions=1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk") as place:
        yield place


def batch(offset: int, size: int = 10_000) -> Batch:
    return Batch(offset, 1, 1_000, ((b"key-%d" % offset, os.urandom(size)),))


def write_until_full(log: RocksLog, offset: int, sync: bool = True) -> list[Batch]:
    """Append until there is no room; return what was written, and last what was refused."""
    tried: list[Batch] = []
    while True:
        tried.append(batch(offset))
        try:
            log.write([AppendBatch(0, tried[-1])], sync=sync)
        except FullDiskError:
            return tried
        offset += 1


def writes_again(log: RocksLog, refused: AppendBatch | SaveVote) -> bool:
    try:
        log.write([refused], sync=True)
    except FullDiskError:
        return False
    return True


@pytest.mark.parametrize("sync", [True, False], ids=["synced", "unsynced"])
def test_a_full_disk_refuses_writes_whole_and_takes_the_same_ones_when_there_is_room(
    small_disk: Path, sync: bool
) -> None:
    log = RocksLog.open(small_disk / "log", IDENTITY)
    filler = fill(small_disk, left=2 * MIB)
    *written, refused = write_until_full(log, 0, sync)
    end = len(written)
    with pytest.raises(FullDiskError, match=r"there is no room on the disk"):
        log.write([SaveVote(0, 9, 0, 0), AppendBatch(0, refused), ApplyState(0, 1, 1, [])], sync)
    assert list(log.batches(0, 0)) == written
    assert (log.stored(0).end_offset, log.stored(0).epoch) == (end, 0)
    assert log.stored(0).applied_offset == 0
    filler.unlink()
    until(lambda: writes_again(log, AppendBatch(0, refused)), 100, "writing works again")
    assert list(log.batches(0, 0)) == [*written, refused]
    log.close()
    again = RocksLog.open(small_disk / "log", IDENTITY)
    assert list(again.batches(0, 0)) == [*written, refused]
    again.close()


@pytest.mark.parametrize("recovered", [False, True], ids=["while full", "after it had room again"])
def test_a_process_killed_on_a_full_disk_loses_nothing_synced(
    small_disk: Path, recovered: bool
) -> None:
    filler = small_disk / "filler"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.storage.full_disk_writer", str(small_disk / "log"),
         str(filler), "recover" if recovered else "stay"],
        stdout=subprocess.PIPE,
    ) as writer:  # fmt: skip
        assert writer.stdout is not None
        end = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
    filler.unlink(missing_ok=True)
    log = RocksLog.open(small_disk / "log", IDENTITY)
    found = [found.base_offset for found in log.batches(0, 0)]
    assert found in (list(range(end)), list(range(end + 1))), "the refused one may be there too"
    log.close()


def test_a_directory_on_a_full_disk_opens_as_soon_as_there_is_room(small_disk: Path) -> None:
    filler = fill(small_disk, left=0)
    for _ in range(2):
        with pytest.raises(FullDiskError, match="there is no room on the disk"):
            RocksLog.open(small_disk / "log", IDENTITY)
    filler.unlink()
    log = RocksLog.open(small_disk / "log", IDENTITY)
    log.write([AppendBatch(0, batch(0))], sync=True)
    log.close()


def test_a_log_reopened_on_a_full_disk_loses_nothing(small_disk: Path) -> None:
    log = RocksLog.open(small_disk / "log", IDENTITY)
    filler = fill(small_disk, left=2 * MIB)
    *written, _ = write_until_full(log, 0)
    log.close()
    fill(small_disk, left=0, name="more")
    with pytest.raises(FullDiskError):
        RocksLog.open(small_disk / "log", IDENTITY)
    filler.unlink()
    again = RocksLog.open(small_disk / "log", IDENTITY)
    assert list(again.batches(0, 0)) == written
    again.close()


class OverQuota:
    """A database whose writes exceed a quota."""

    def write(self, *_: object) -> None:
        raise OSError(f"IO error: While appending to file: {QUOTA}")

    def close(self) -> None:
        pass


def test_an_exceeded_quota_is_a_full_disk_until_there_is_room_and_then_the_log_opens_anew(
    small_disk: Path,
) -> None:
    log = RocksLog.open(small_disk / "log", IDENTITY)
    log.write([AppendBatch(0, batch(0))], sync=True)
    log._database = OverQuota()  # type: ignore[assignment]
    filler = fill(small_disk, left=0)
    for _ in range(2):
        with pytest.raises(FullDiskError):
            log.write([AppendBatch(0, batch(1))], sync=True)
    assert log.stored(0).end_offset == 1
    filler.unlink()
    with pytest.raises(LogError, match="must be opened anew") as refusal:
        log.write([AppendBatch(0, batch(1))], sync=True)
    assert not isinstance(refusal.value, FullDiskError)
