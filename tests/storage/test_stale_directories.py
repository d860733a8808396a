"""A directory is trusted only as the newest state of the replica that it was."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.disk import witness
from storage.disk.directory import mark_stale, set_aside
from storage.disk.identity import LogIdentity
from storage.disk.incarnation import Incarnation
from storage.disk.rocks import DIRECTORY, INCARNATION, RocksLog
from storage.disk.witness import path_beside
from storage.log import (
    AppendBatch,
    CorruptLogError,
    ForeignLogError,
    LockedLogError,
    LogError,
    StaleLogError,
)
from tests.storage.dying_writer import IDENTITY, batch

pytestmark = pytest.mark.thorough


Change = Callable[[Path], object]


def opened(path: Path) -> RocksLog:
    log = RocksLog.open(path, IDENTITY)
    end = log.stored(0).end_offset
    log.write([AppendBatch(0, batch(end))], sync=True)
    return log


def start(path: Path) -> Incarnation:
    """Start once, write a record, stop."""
    log = opened(path)
    log.close()
    return log.incarnation


def put_back(copy: Path, path: Path) -> None:
    shutil.rmtree(path)
    shutil.copytree(copy, path)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "node-0"
    start(path)
    return path


def test_each_start_is_one_more_of_the_same_directory(node: Path) -> None:
    second, third = start(node), start(node)
    assert (second.number, third.number) == (2, 3)
    assert third.directory_id == second.directory_id and third.tokens[:2] == second.tokens


def test_a_copy_made_between_two_starts_is_refused_untouched(node: Path, tmp_path: Path) -> None:
    shutil.copytree(node, tmp_path / "copy")
    start(node)
    put_back(tmp_path / "copy", node)
    before = {file.name: file.read_bytes() for file in node.glob("*.sst")}
    for _ in range(3):
        with pytest.raises(StaleLogError, match="started since the copy was made") as refusal:
            RocksLog.open(node, IDENTITY)
        assert "move the directory away, and keep it" in str(refusal.value)
        assert "\n" not in str(refusal.value)
    assert before.items() <= {file.name: file.read_bytes() for file in node.glob("*.sst")}.items()


def test_a_copy_made_while_the_node_ran_is_refused(node: Path, tmp_path: Path) -> None:
    log = opened(node)
    shutil.copytree(node, tmp_path / "copy")
    log.write([AppendBatch(0, batch(2))], sync=True)
    log.close()
    put_back(tmp_path / "copy", node)
    with pytest.raises(StaleLogError, match="not the ones that were written here"):
        RocksLog.open(node, IDENTITY)


def test_a_copy_without_what_stands_beside_it_is_refused(node: Path, tmp_path: Path) -> None:
    shutil.copytree(node, tmp_path / "node-0")
    with pytest.raises(StaleLogError, match=r"node-0\.incarnation beside it does not know it"):
        RocksLog.open(tmp_path / "node-0", IDENTITY)


def test_a_copy_of_the_whole_data_directory_goes_on_as_the_original(
    node: Path, tmp_path: Path
) -> None:
    shutil.copytree(node.parent, tmp_path / "other-disk")
    assert start(tmp_path / "other-disk" / "node-0").number == 2


def test_a_directory_that_is_moved_with_what_stands_beside_it_goes_on(
    node: Path, tmp_path: Path
) -> None:
    node.parent.rename(tmp_path / "elsewhere")
    assert start(tmp_path / "elsewhere" / "node-0").number == 2


def test_a_directory_that_was_set_aside_and_put_back_goes_on(node: Path) -> None:
    """A disk that was not mounted in time: the node began empty, then the disk came back."""
    aside = set_aside(node)
    other = start(node)
    node.rename(node.with_name("later"))
    aside.rename(node)
    found = start(node)
    assert found.number == 2 and found.directory_id != other.directory_id


def test_a_start_that_died_before_it_was_known_is_no_copy(node: Path) -> None:
    """The database knows of the start first, the file beside it a moment later."""
    known = path_beside(node).read_text()
    last = start(node)
    path_beside(node).write_text(known)
    assert start(node).number == last.number + 1


def test_a_first_start_that_died_before_it_was_known_is_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, saves, save = tmp_path / "log", [0], witness.save

    def dying(*arguments: object) -> None:
        saves[0] += 1
        if saves[0] == 2:
            raise KeyboardInterrupt
        save(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(witness, "save", dying)
    with pytest.raises(KeyboardInterrupt):
        RocksLog.open(path, IDENTITY)
    monkeypatch.undo()
    assert start(path).number == 2


def test_an_operator_may_accept_a_copy(node: Path, tmp_path: Path) -> None:
    shutil.copytree(node, tmp_path / "copy")
    seen = start(node)
    put_back(tmp_path / "copy", node)
    witness.accept(node)
    found = start(node)
    assert found.directory_id == seen.directory_id and found.number > seen.number + 100
    shutil.copytree(node, tmp_path / "second")
    start(node)
    put_back(tmp_path / "second", node)
    with pytest.raises(StaleLogError):  # it was meant once
        RocksLog.open(node, IDENTITY)


def test_a_database_of_an_earlier_version_keeps_its_id(node: Path) -> None:
    log = RocksLog.open(node, IDENTITY)
    for key in (DIRECTORY, INCARNATION):
        log._families["meta"].delete(key)
    log.close()
    path_beside(node).unlink()
    found = start(node)
    assert (found.directory_id, found.number) == (log.directory_id, 1)


def _all_but_the_notes(path: Path) -> None:
    for file in path.iterdir():
        if file.name not in ("meta.properties", "formation.json"):
            file.unlink()


def _of_a_young_database(path: Path) -> None:
    for pattern in ("*.log", "*.sst"):
        for file in path.glob(pattern):
            file.unlink()


def test_a_database_that_is_gone_takes_its_id_with_it(node: Path) -> None:
    """S2: the empty database voted as the replica that ``meta.properties`` name."""
    before = start(node)
    _all_but_the_notes(node)
    log = RocksLog.open(node, IDENTITY)
    log.close()
    assert log.directory_id != before.directory_id and log.incarnation.number == 1
    assert log.directory_id in (node / "meta.properties").read_text()
    assert "its database is gone" in log.notes[0]
    assert start(node).directory_id == log.directory_id


def test_a_database_of_an_earlier_version_that_is_gone_takes_its_id_with_it(node: Path) -> None:
    before = start(node)
    path_beside(node).unlink()
    _all_but_the_notes(node)
    assert start(node).directory_id != before.directory_id


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda path: (path / "CURRENT").unlink(), "its file CURRENT is missing"),
        (lambda path: [file.unlink() for file in path.glob("*.log")], "write-ahead log"),
        (lambda path: [file.unlink() for file in path.glob("*.sst")], "No such file"),
        (lambda path: [file.unlink() for file in path.glob("MANIFEST*")], "No such file"),
        (_of_a_young_database, "No such file"),
    ],
    ids=["CURRENT", "write-ahead log", "tables", "manifest", "tables and write-ahead log"],
)
def test_a_database_of_which_files_are_gone_is_damaged_and_left_alone(
    node: Path, change: Change, says: str
) -> None:
    change(node)
    before = {file.name for file in node.iterdir()}
    with pytest.raises(CorruptLogError, match=says) as refusal:
        RocksLog.open(node, IDENTITY)
    assert "\n" not in str(refusal.value)
    assert {name for name in before if name.endswith((".sst", ".log"))} <= {
        file.name for file in node.iterdir()
    }


def test_a_database_under_the_notes_of_another_directory_is_refused(
    node: Path, tmp_path: Path
) -> None:
    start(tmp_path / "node-0")
    (node / "meta.properties").write_bytes((tmp_path / "node-0" / "meta.properties").read_bytes())
    with pytest.raises(StaleLogError, match="not those of its database"):
        RocksLog.open(node, IDENTITY)


def test_a_directory_that_peers_found_to_be_a_copy_is_refused_at_the_next_start(
    node: Path,
) -> None:
    assert "node 2 has seen" in str(mark_stale(node, "node 2 has seen a later start of it"))
    with pytest.raises(StaleLogError, match="node 2 has seen a later start of it"):
        RocksLog.open(node, IDENTITY)


@pytest.mark.parametrize("text", ["", "\udcff\x00", "version=2", "version=9\n", "{}"])
def test_notes_that_say_nothing_are_refused_in_one_sentence(node: Path, text: str) -> None:
    (node / "meta.properties").write_text(text, errors="surrogateescape")
    with pytest.raises(ForeignLogError) as refusal:
        RocksLog.open(node, IDENTITY)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"inode": 1}', "null", '{"starts": 7}'])
def test_a_file_beside_the_directory_that_says_nothing_makes_it_a_copy(
    node: Path, text: str
) -> None:
    path_beside(node).write_text(text)
    with pytest.raises(StaleLogError):
        RocksLog.open(node, IDENTITY)


def test_a_directory_behind_a_link_is_set_aside_on_its_own_disk(tmp_path: Path) -> None:
    (tmp_path / "disk" / "log").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    node = tmp_path / "data" / "node-0"
    node.symlink_to(tmp_path / "disk" / "log")
    first = start(node)
    assert set_aside(node, "stale") == tmp_path / "disk" / "log.stale-1"
    assert node.is_symlink() and start(node).directory_id != first.directory_id
    assert (tmp_path / "disk" / "log" / "CURRENT").exists()


def test_a_mount_point_is_set_aside_within_itself(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def busy(self: Path, target: Path) -> Path:
        if self == node:
            raise OSError(16, "Device or resource busy")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", busy)
    first = start(node)
    assert set_aside(node) == node / "corrupt-1"
    second = start(node)
    assert set_aside(node) == node / "corrupt-2"
    third = start(node)
    assert len({each.directory_id for each in (first, second, third)}) == 3
    assert (node / "corrupt-1" / "CURRENT").exists() and (node / "corrupt-2" / "CURRENT").exists()


@pytest.mark.parametrize("said", ["Permission denied", "Read-only file system"])
def test_a_directory_that_can_not_be_written_is_not_said_to_be_in_use(
    node: Path, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(_: Path) -> None:
        raise RuntimeError(f"IO error: While lock file: {node}/LOCK: {said}")

    monkeypatch.setattr("storage.disk.rocks.open_database", refusing)
    with pytest.raises(LogError, match=said) as refusal:
        RocksLog.open(node, IDENTITY)
    assert not isinstance(refusal.value, LockedLogError)


def test_peers_starts_are_remembered_over_ones_own(node: Path) -> None:
    first = Incarnation("peer").next("a")
    second = first.next("b")
    log = RocksLog.open(node, IDENTITY)
    assert log.vouch(first) and log.vouch(second) and not log.vouch(first)
    log.close()
    again = RocksLog.open(node, IDENTITY)
    assert not again.vouch(first) and again.vouch(second)
    again.close()


def test_another_owner_s_directory_is_no_copy(node: Path) -> None:
    other = LogIdentity(cluster_id="another", node_id=0, partitions=1)
    with pytest.raises(ForeignLogError):
        RocksLog.open(node, other)
