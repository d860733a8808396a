"""The log on disk: whose it is, what happens to it when files are cut or damaged."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from shutil import rmtree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.disk.directory import set_aside
from storage.disk.identity import LogIdentity, directory_id_in
from storage.disk.rocks import RocksLog
from storage.disk.wal import torn_at
from storage.disk.witness import path_beside
from storage.log import (
    AppendBatch,
    ApplyState,
    CorruptLogError,
    DropBefore,
    ForeignLogError,
    LockedLogError,
    LogError,
    MemoryLog,
    SnapshotGoneError,
    Stored,
)
from tests.effort import examples
from tests.storage.dying_writer import IDENTITY, batch, unit

pytestmark = pytest.mark.thorough


def killed_after(path: Path, synced: int, size: int = 200, *more: str) -> None:
    """Write ``synced`` batches in another process, which then dies without closing anything."""
    command = [sys.executable, "-m", "tests.storage.dying_writer", str(path)]
    subprocess.run(
        [*command, str(synced), str(size), *more], stdout=subprocess.DEVNULL, check=False
    )


def newest_wal(path: Path) -> Path:
    return max(path.glob("*.log"))


def offsets(log: RocksLog) -> list[int]:
    return [found.base_offset for found in log.batches(0, 0)]


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / "log"
    killed_after(path, synced=60)
    return path


@pytest.fixture(scope="module")
def flushed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flushed") / "log"
    killed_after(path, 60, 200, "flush")
    return path


@pytest.fixture
def copy(written: Path, tmp_path: Path) -> Path:
    return copied(written, tmp_path / "copy")


def copied(source: Path, target: Path) -> Path:
    """Copy a directory and what stands beside it, as a copy of the whole data directory does."""
    target.mkdir(parents=True)
    for name, content in files(source).items():
        (target / name).write_bytes(content)
    path_beside(target).write_bytes(path_beside(source).read_bytes())
    return target


@pytest.mark.parametrize(
    "other",
    [
        LogIdentity(cluster_id="another", node_id=0, partitions=1),
        LogIdentity(cluster_id="cluster", node_id=1, partitions=1),
        LogIdentity(cluster_id="cluster", node_id=0, partitions=2),
    ],
    ids=["cluster", "node", "partition count"],
)
def test_a_directory_of_another_owner_is_refused_untouched(copy: Path, other: LogIdentity) -> None:
    before = files(copy)
    with pytest.raises(ForeignLogError, match=r"use another data directory\.$"):
        RocksLog.open(copy, other)
    assert files(copy) == before


def test_a_newer_format_is_refused_untouched(copy: Path) -> None:
    note = copy / "meta.properties"
    note.write_text(note.read_text().replace("version=2", "version=3"))
    before = files(copy)
    with pytest.raises(ForeignLogError, match="format version is 3 and this program reads 2"):
        RocksLog.open(copy, IDENTITY)
    assert files(copy) == before


def test_a_database_without_its_meta_properties_is_refused_untouched(copy: Path) -> None:
    (copy / "meta.properties").unlink()
    before = files(copy)
    with pytest.raises(ForeignLogError, match=r"without meta\.properties"):
        RocksLog.open(copy, IDENTITY)
    assert files(copy) == before


def test_meta_properties_carried_to_another_database_do_not_deceive(
    copy: Path, tmp_path: Path
) -> None:
    other = LogIdentity(cluster_id="another", node_id=0, partitions=1)
    RocksLog.open(tmp_path / "other", other).close()
    (copy / "meta.properties").write_bytes((tmp_path / "other" / "meta.properties").read_bytes())
    with pytest.raises(ForeignLogError, match=r"cluster\.id is cluster, not another"):
        RocksLog.open(copy, other)


def test_a_directory_in_use_is_refused_in_one_sentence(tmp_path: Path) -> None:
    log = RocksLog.open(tmp_path / "log", IDENTITY)
    with pytest.raises(LockedLogError, match="another process has this log open"):
        RocksLog.open(tmp_path / "log", IDENTITY)
    opening = (
        "import sys\nfrom storage.disk.rocks import RocksLog\n"
        "from storage.disk.identity import LogIdentity\n"
        "RocksLog.open(sys.argv[1], LogIdentity(cluster_id='cluster', node_id=0, partitions=1))"
    )
    other = subprocess.run(
        [sys.executable, "-c", opening, str(tmp_path / "log")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "LockedLogError" in other.stderr and "another process has this log open" in other.stderr
    log.close()


def test_a_directory_without_its_manifest_is_refused_in_one_sentence(copy: Path) -> None:
    for table in copy.glob("MANIFEST*"):
        table.unlink()
    with pytest.raises(LogError) as refusal:
        RocksLog.open(copy, IDENTITY)
    assert str(copy) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_killed_process_loses_nothing_synced(copy: Path) -> None:
    log = RocksLog.open(copy, IDENTITY)
    assert offsets(log) == list(range(19, 60))
    assert log.notes == ()


@pytest.mark.parametrize("cut", [1, 10, 150])
def test_a_torn_last_write_is_cut_and_reported(copy: Path, cut: int) -> None:
    wal = newest_wal(copy)
    wal.write_bytes(wal.read_bytes()[:-cut])
    log = RocksLog.open(copy, IDENTITY)
    assert offsets(log) == list(range(19, 59))
    assert len(log.notes) == 1 and "unfinished write" in log.notes[0]
    log.write([AppendBatch(0, batch(59))], sync=True)
    log.close()
    again = RocksLog.open(copy, IDENTITY)
    assert offsets(again) == list(range(19, 60))
    assert again.notes == ()


def test_blocks_that_never_reached_the_disk_at_the_end_are_a_torn_write(tmp_path: Path) -> None:
    killed_after(tmp_path / "log", synced=10, size=6_000)
    wal = newest_wal(tmp_path / "log")
    content = wal.read_bytes()
    wal.write_bytes(content[:-4_000] + bytes(4_000))
    log = RocksLog.open(tmp_path / "log", IDENTITY)
    assert offsets(log) == list(range(9))
    assert len(log.notes) == 1


def test_a_write_torn_in_its_second_block_goes_whole(tmp_path: Path) -> None:
    killed_after(tmp_path / "log", synced=3, size=50_000)
    wal = newest_wal(tmp_path / "log")
    wal.write_bytes(wal.read_bytes()[:-100])
    log = RocksLog.open(tmp_path / "log", IDENTITY)
    assert offsets(log) == [0, 1]


def test_a_flipped_bit_in_a_whole_record_refuses_to_start_with_one_sentence(copy: Path) -> None:
    wal = newest_wal(copy)
    content = bytearray(wal.read_bytes())
    content[len(content) // 2] ^= 1
    wal.write_bytes(content)
    with pytest.raises(CorruptLogError) as refusal:
        RocksLog.open(copy, IDENTITY)
    sentence = str(refusal.value)
    assert str(copy) in sentence and "move the directory away, and keep it" in sentence
    assert "\n" not in sentence


def test_a_record_whose_length_reaches_past_the_end_is_no_torn_tail_when_others_follow(
    copy: Path,
) -> None:
    wal = newest_wal(copy)
    content = bytearray(wal.read_bytes())
    middle = 0
    while middle < len(content) // 2:
        middle += 7 + int.from_bytes(content[middle + 4 : middle + 6], "little")
    content[middle + 5] = 0x7F
    wal.write_bytes(content)
    assert torn_at(bytes(content)) is None
    with pytest.raises(CorruptLogError):
        RocksLog.open(copy, IDENTITY)


def test_a_whole_log_is_torn_nowhere(copy: Path) -> None:
    content = newest_wal(copy).read_bytes()
    assert torn_at(content) == len(content)
    assert torn_at(b"") == 0


def test_a_batch_missing_in_the_middle_is_found_at_start(tmp_path: Path) -> None:
    log = RocksLog.open(tmp_path, IDENTITY)
    log.write([AppendBatch(0, batch(0)), AppendBatch(0, batch(2))], sync=True)
    log.close()
    with pytest.raises(CorruptLogError, match="offset 1 of partition 0 is missing"):
        RocksLog.open(tmp_path, IDENTITY)


def test_a_log_that_begins_after_its_snapshot_is_found_at_start(tmp_path: Path) -> None:
    log = RocksLog.open(tmp_path, IDENTITY)
    log.write([AppendBatch(0, batch(n)) for n in range(4)], sync=True)
    log.write([ApplyState(0, 1, 1, []), DropBefore(0, 3)], sync=True)
    log.close()
    with pytest.raises(CorruptLogError):
        RocksLog.open(tmp_path, IDENTITY)


def read_all(path: Path) -> tuple[list[int], dict[bytes, bytes]]:
    """Open a damaged copy and read everything, as loading does."""
    log = RocksLog.open(path, IDENTITY)
    try:
        return offsets(log), dict(log.state(0))
    finally:
        log.close()


@cache
def after(units: int) -> tuple[list[int], dict[bytes, bytes]]:
    """Return what :func:`read_all` finds when so many units were written."""
    log = MemoryLog()
    for offset in range(units):
        log.write(unit(offset, 200), sync=True)
    return [found.base_offset for found in log.batches(0, 0)], dict(log.state(0))


def damaged(path: Path, data: st.DataObject) -> tuple[str, str]:
    """Damage one file of the database at random; return which and how."""
    names = sorted(
        file.name
        for file in path.iterdir()
        if file.stat().st_size and file.suffix in {".log", ".sst"}
    )
    name = data.draw(st.sampled_from(names), label="file")
    content = bytearray((path / name).read_bytes())
    at = data.draw(st.integers(0, len(content) - 1), label="at")
    how = data.draw(st.sampled_from(["flip", "cut"]), label="how")
    if how == "flip":
        content[at] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    else:
        del content[at:]
    (path / name).write_bytes(content)
    return name, how


@pytest.mark.parametrize("source", ["written", "flushed"])
@settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_damage_is_refused_or_harmless_but_never_silent(
    source: str,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> None:
    whole: Path = request.getfixturevalue(source)
    path = copied(whole, tmp_path_factory.mktemp("damaged") / "log")
    name, how = damaged(path, data)
    try:
        found = read_all(path)
    except LogError:
        return
    if name.endswith(".log") and how == "cut":
        assert found in [after(units) for units in range(61)]  # what follows was never written
    elif name.endswith(".log"):
        assert found in (after(60), after(59))  # at most the last, taken for unfinished
    else:
        assert found == after(60)


def test_what_a_start_recovers_is_written_and_synced_anew(copy: Path) -> None:
    """After a failed sync the old file may look whole and be lost with the next power cut."""
    old = newest_wal(copy)
    tables = set(copy.glob("*.sst"))
    log = RocksLog.open(copy, IDENTITY)
    assert offsets(log) == list(range(19, 60))
    assert not old.exists() or not old.stat().st_size
    assert set(copy.glob("*.sst")) - tables, "RocksDB syncs each table that it writes"
    log.close()


def test_a_write_that_ends_between_two_fragments_goes_whole(tmp_path: Path) -> None:
    """A full disk can end a file with a whole block, in the middle of a record."""
    killed_after(tmp_path / "log", synced=3, size=50_000)
    wal = newest_wal(tmp_path / "log")
    wal.write_bytes(wal.read_bytes()[: 4 * 32 * 1024])
    log = RocksLog.open(tmp_path / "log", IDENTITY)
    assert offsets(log) == [0, 1]
    assert "unfinished write" in log.notes[0]


def test_an_identity_is_one_random_id_per_directory(tmp_path: Path) -> None:
    first = RocksLog.open(tmp_path / "first", IDENTITY)
    second = RocksLog.open(tmp_path / "second", IDENTITY)
    assert first.directory_id and first.directory_id != second.directory_id
    kept = first.directory_id
    first.close()
    again = RocksLog.open(tmp_path / "first", IDENTITY)
    assert again.directory_id == kept


def test_a_directory_without_its_id_is_refused_untouched(copy: Path) -> None:
    note = copy / "meta.properties"
    rows = [row for row in note.read_text().splitlines() if "directory.id" not in row]
    note.write_text("\n".join(rows))
    before = files(copy)
    with pytest.raises(ForeignLogError, match=r"have no directory\.id"):
        RocksLog.open(copy, IDENTITY)
    assert files(copy) == before


def test_a_damaged_directory_set_aside_leaves_room_for_an_empty_one(
    written: Path, tmp_path: Path
) -> None:
    place = tmp_path / "node-0"
    ids = set()
    for number in (1, 2):
        ids.add(directory_id_in("", (copied(written, place) / "meta.properties").read_text()))
        aside = set_aside(place)
        assert aside.name == f"node-0.corrupt-{number}"
        log = RocksLog.open(place, IDENTITY)
        assert log.stored(0) == Stored()
        ids.add(log.directory_id)
        log.close()
        rmtree(place)
    assert len(ids) == 3, "each new directory is another replica"


def test_a_closed_log_can_be_reopened_while_something_still_reads_it(tmp_path: Path) -> None:
    log = RocksLog.open(tmp_path, IDENTITY)
    log.write([ApplyState(0, 1, 1, [(b"%d" % n, b"x") for n in range(500)])], sync=True)
    log.write([AppendBatch(0, batch(1)), AppendBatch(0, batch(2))], sync=True)
    rows, batches, slices = log.state(0), log.batches(0, 0), log.snapshot(0).slices
    next(rows), next(batches)
    log.close()
    again = RocksLog.open(tmp_path, IDENTITY)
    for reading in (rows, batches, slices):
        with pytest.raises(SnapshotGoneError, match="closed while it was read"):
            list(reading)
    again.close()


def test_a_damaged_log_is_closed_for_good(flushed: Path, tmp_path: Path) -> None:
    """What keeps the error keeps its frames, and nothing of them may keep the database open."""
    path = copied(flushed, tmp_path / "log")
    for table in path.glob("*.sst"):
        content = bytearray(table.read_bytes())
        content[len(content) // 20] ^= 1
        table.write_bytes(content)
    with pytest.raises(LogError) as refusal:
        RocksLog.open(path, IDENTITY)
    set_aside(path)
    RocksLog.open(path, IDENTITY).close()
    assert "damaged" in str(refusal.value)
