"""What is left after a majority is lost: the newest copy of each partition, and what is missing."""

import shutil
from pathlib import Path

import pytest

from actors.backup.files import read_partition, verify
from actors.backup.recovering import REPORT, recover
from actors.backup.restoring import prepare, restore_here
from actors.cluster.data_dir import open_data_dir
from actors.errors import BadInputError, FailureError
from storage.batch import Batch
from storage.control import VOTERS_CHANGE_KEY, voters_change
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
from storage.log import AppendBatch
from storage.messages import ReplicaKey
from tests.actors.backup.backups import CLUSTER_ID, committed, write_backup
from tests.actors.cli.test_exchange import ran

FIRST, SECOND = committed("a", 1), committed("a", 2)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Make a cluster of three nodes and replicas whose partition 0 has one offset."""
    write_backup(tmp_path / "b", {0: [FIRST]}, partitions=3, replicas=3)
    restore_here(prepare(tmp_path / "b", None), tmp_path / "data")
    return tmp_path / "data"


def append(data: Path, node_id: int, epoch: int, batch: Batch | None = None) -> None:
    """Append a batch to partition 0 on one node: by default, another offset."""
    identity = LogIdentity(
        cluster_id=CLUSTER_ID,
        node_id=node_id,
        partitions=3,
        others=(1_000_000, 1_000_001, 1_000_002),
    )
    log = RocksLog.open(data / f"node-{node_id}", identity)
    try:
        end = log.stored(0).end_offset
        log.write([AppendBatch(0, batch or Batch(end, epoch, 0, (SECOND,)))], sync=True)
    finally:
        log.close()


def lose(data: Path, *node_ids: int) -> None:
    for node_id in node_ids:
        for path in data.glob(f"node-{node_id}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def recovered(data: Path) -> tuple[list[tuple[bytes, bytes | None]], str]:
    """Recover; return the records of partition 0, and what was said of it."""
    target = data.parent / "recovered"
    manifest, said = recover([data], target)
    assert verify(target) == manifest
    assert (target / REPORT).read_text().splitlines() == said
    (sentence,) = (line for line in said if line.startswith("partition 0: "))
    return list(read_partition(target, manifest.file_of(0))), sentence


def test_one_of_three_is_not_complete(data: Path) -> None:
    append(data, 1, 6)
    lose(data, 0, 2)
    before = sorted(path.name for path in data.rglob("*"))
    rows, sentence = recovered(data)
    assert rows == [SECOND]
    assert "from node 1, offset 101, epoch 6, 1 of 3 voters left" in sentence
    assert "ACKNOWLEDGED AFTER THAT OFFSET IS MISSING" in sentence
    assert sorted(path.name for path in data.rglob("*")) == before


def test_two_of_three_are_complete_and_the_newest_counts(data: Path) -> None:
    append(data, 0, 6)
    append(data, 2, 7, Batch(100, 7, 0, (committed("b", 3),)))
    append(data, 0, 6)
    lose(data, 1)
    rows, sentence = recovered(data)
    assert sorted(rows) == sorted([FIRST, committed("b", 3)])
    assert sentence.endswith("from node 2, offset 101, epoch 7, 2 of 3 voters left: complete")


def test_voters_are_those_of_the_newest_copy(data: Path) -> None:
    """Node 1 has been replaced, so that nodes 0 and 2 are half of the voters, not most."""
    file = open_data_dir(data)
    assert file is not None
    voters = [ReplicaKey(node_id, file.directories[node_id]) for node_id in (0, 2)]
    voters += [ReplicaKey(3, "new"), ReplicaKey(4, "new")]
    change = Batch(100, 6, 0, ((VOTERS_CHANGE_KEY, voters_change(voters)),), control=True)
    append(data, 0, 6, change)
    rows, sentence = recovered(data)
    assert rows == [FIRST]
    assert "2 of 4 voters left: WHAT WAS ACKNOWLEDGED" in sentence


def test_a_damaged_log_is_left_out(data: Path) -> None:
    for file in (data / "node-0").glob("*"):
        if file.suffix in {".log", ".sst"}:
            file.write_bytes(bytes(len(file.read_bytes())))
    (data / "node-2" / "CURRENT").write_text("rubbish")
    manifest, said = recover([data], data.parent / "recovered")
    assert any("node 2 in" in line and "is left out" in line for line in said)
    assert list(read_partition(data.parent / "recovered", manifest.file_of(0))) == [FIRST]


def test_a_partition_of_which_nothing_is_left_begins_empty(tmp_path: Path) -> None:
    rows = {number: [FIRST] for number in range(3)}
    write_backup(tmp_path / "b", rows, partitions=3, replicas=1)
    restore_here(prepare(tmp_path / "b", None), tmp_path / "data")
    lose(tmp_path / "data", 2)
    manifest, said = recover([tmp_path / "data"], tmp_path / "recovered")
    assert "partition 2: NOTHING IS LEFT, it begins empty" in said
    assert any(line.startswith("partition 1: ") and "complete" in line for line in said)
    assert [manifest.file_of(number).records for number in range(3)] == [1, 1, 0]
    restore_here(prepare(tmp_path / "recovered", None), tmp_path / "again")


def test_what_is_left_may_be_on_several_disks(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(data / "cluster.json", other)
    append(data, 2, 6)
    for path in list(data.glob("node-2*")):
        path.rename(other / path.name)
    lose(data, 0)
    _, said = recover([data, other], tmp_path / "recovered")
    assert any("from node 2, offset 101, epoch 6, 2 of 3 voters left: complete" in s for s in said)


def test_what_the_command_recovers_is_restored(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(data, 1, 6)
    lose(data, 0, 2)
    target = tmp_path / "left"
    code, out, _ = ran(capsys, "recover", "--unsafe", data, "--to", target)
    assert code == 0
    assert "partition 0: from node 1, offset 101, epoch 6, 1 of 3 voters left" in out
    assert list(read_partition(target, verify(target).file_of(0))) == [SECOND]
    code, _, err = ran(capsys, "restore", target, "--data-dir", tmp_path / "again")
    assert (code, err) == (0, "")


def test_mistakes_are_one_sentence(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadInputError, match="is not a data directory"):
        recover([tmp_path], tmp_path / "r")
    write_backup(tmp_path / "c", {})
    text = (data / "cluster.json").read_text().replace(CLUSTER_ID, "another")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "cluster.json").write_text(text)
    with pytest.raises(BadInputError, match="belong to several clusters"):
        recover([data, tmp_path / "elsewhere"], tmp_path / "r")
    lose(data, 0, 1, 2)
    with pytest.raises(FailureError, match="There is no log"):
        recover([data], tmp_path / "r")
    assert not (tmp_path / "r").exists()
    code, _, err = ran(capsys, "recover", data, "--to", tmp_path / "r")
    assert code == 2
    assert "as a last resort, add --unsafe" in err
