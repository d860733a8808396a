"""The files of a backup: what was written is read, and nothing that differs is accepted."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.backup.files import (
    BATCH_BYTES,
    BATCH_RECORDS,
    in_batches,
    new_backup,
    read_partition,
    segment_path,
    verify,
)
from actors.backup.manifest import MANIFEST, BrokenBackupError, directory_of, read_manifest
from actors.errors import BadInputError
from tests.actors.backup.backups import CLUSTER_ID, committed, write_backup
from tests.effort import examples

ROWS = [committed(f"g-{number}", number) for number in range(3)]


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    write_backup(tmp_path / "b", {0: ROWS})
    return tmp_path / "b"


def test_what_was_written_is_read(backup: Path) -> None:
    manifest = verify(backup)
    assert (manifest.cluster_id, manifest.partitions, manifest.replicas) == (CLUSTER_ID, 1, 1)
    row = manifest.file_of(0)
    assert (row.offset, row.epoch, row.records) == (100, 5, 3)
    assert row.bytes == segment_path(backup, 0).stat().st_size
    assert list(read_partition(backup, row)) == ROWS


def test_the_directories_have_kafkas_names(backup: Path) -> None:
    names = ["__consumer_offsets-0", "__share_group_state-0", "catalogue-0", MANIFEST]
    assert sorted(path.name for path in backup.iterdir()) == names
    assert segment_path(backup, 0).name == "00000000000000000000.log"
    assert directory_of(1_000_002) == "__share_group_state-2"


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (_cut, "bytes instead of"),
        (_flip, "its SHA-256 is not that of"),
        (_lengthen, "bytes instead of"),
        (_empty, "has 0 bytes instead of"),
        (Path.unlink, "cannot be read"),
    ],
)
def test_a_damaged_file_is_refused(backup: Path, harm: Callable[[Path], None], why: str) -> None:
    path = segment_path(backup, 0)
    harm(path)
    with pytest.raises(BrokenBackupError, match=why) as refused:
        verify(backup)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"format": 2}, "has format 2, but this version reads format 1"),
        ({"partitions": 2}, "does not list every partition of 2 exactly once"),
        ({"partitions": 0}, "cannot be read"),
        ({"files": "none"}, "cannot be read"),
        ({"more": 1}, "unknown field"),
    ],
)
def test_a_changed_manifest_is_refused(backup: Path, change: dict[str, object], why: str) -> None:
    path = backup / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(BrokenBackupError, match=why):
        verify(backup)


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00"])
def test_a_file_that_is_no_manifest_is_refused(backup: Path, text: str) -> None:
    (backup / MANIFEST).write_text(text)
    with pytest.raises(BrokenBackupError, match="cannot be read"):
        read_manifest(backup)


def test_a_directory_without_a_manifest_is_no_backup(tmp_path: Path) -> None:
    with pytest.raises(BrokenBackupError, match="is not a backup"):
        verify(tmp_path)


def test_a_record_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    write_backup(tmp_path / "b", {0: [(ROWS[0][0], b"\x00\x00rubbish")]})
    with pytest.raises(BrokenBackupError, match="a record of partition 0 cannot be read"):
        verify(tmp_path / "b")


def test_a_record_of_an_unknown_type_is_kept(tmp_path: Path) -> None:
    newer = (b"\x7f\x00key", b"value")
    write_backup(tmp_path / "b", {0: [newer]})
    manifest = verify(tmp_path / "b")
    assert list(read_partition(tmp_path / "b", manifest.file_of(0))) == [newer]


def test_nothing_is_overwritten_and_no_half_backup_stays(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(BadInputError, match="already exists"), new_backup(tmp_path / "there"):
        pass
    with pytest.raises(ZeroDivisionError), new_backup(tmp_path / "new") as draft:
        (draft / "file").touch()
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@given(
    st.lists(
        st.tuples(st.binary(max_size=3), st.integers(0, BATCH_BYTES + 100).map(bytes)),
        max_size=examples(20),
    )
)
def test_batches_have_limits(rows: list[tuple[bytes, bytes]]) -> None:
    batches = list(in_batches(rows))
    assert [row for batch in batches for row in batch] == rows
    for batch in batches:
        size = sum(len(key) + len(value or b"") for key, value in batch)
        assert 1 <= len(batch) <= BATCH_RECORDS
        assert size <= BATCH_BYTES or len(batch) == 1
