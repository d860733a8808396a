"""A data directory keeps its cluster's id and ports, and refuses what does not fit."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from actors.cluster.data_dir import (
    ClusterFile,
    accept_copies,
    check_unlocked,
    hold_lock,
    new_cluster_id,
    new_secret,
    open_data_dir,
    save,
)
from actors.coordinator import formation
from actors.errors import BadInputError
from storage.disk.directory import mark_stale
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
from storage.log import ForeignLogError, StaleLogError

NODE = LogIdentity(cluster_id="cluster", node_id=0, partitions=1)


def test_a_new_directory_is_made_and_belongs_to_nobody(tmp_path: Path) -> None:
    assert open_data_dir(tmp_path / "a" / "b") is None
    assert (tmp_path / "a" / "b").is_dir()


def test_what_was_saved_is_found_again(tmp_path: Path) -> None:
    cluster = ClusterFile(
        cluster_id=new_cluster_id(), partitions=3, ports=(1, 2, 3, 4), replicas=3, secret="s3cret"
    )
    for one in (cluster, replace(cluster, directories=("a", "b", "c"))):
        save(tmp_path, one)
        assert open_data_dir(tmp_path) == one


def test_the_secret_is_for_its_owner_alone(tmp_path: Path) -> None:
    cluster = ClusterFile(
        cluster_id=new_cluster_id(), partitions=1, ports=(1, 2), replicas=1, secret=new_secret()
    )
    save(tmp_path, cluster)
    assert (tmp_path / "cluster.json").stat().st_mode & 0o777 == 0o600
    assert cluster.secret not in repr(cluster)
    assert new_secret() != new_secret()


def test_a_directory_of_one_replica_per_partition_is_refused_untouched(tmp_path: Path) -> None:
    text = json.dumps({"cluster_id": "x", "partitions": 1, "ports": [1, 2], "format": 1})
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(BadInputError, match="has format 1, but this version reads format 3"):
        open_data_dir(tmp_path)
    assert (tmp_path / "cluster.json").read_text() == text


def test_a_cluster_id_has_kafkas_form() -> None:
    assert len(new_cluster_id()) == 22
    assert new_cluster_id() != new_cluster_id()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cluster_id": "x"}', '{"ports": [1]}'])
def test_a_damaged_cluster_file_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(BadInputError, match=r"cluster\.json cannot be read"):
        open_data_dir(tmp_path)


def test_logs_without_a_cluster_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "node-0").mkdir()
    with pytest.raises(BadInputError, match=r"has logs but no cluster\.json"):
        open_data_dir(tmp_path)


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInputError, match="cannot be written"):
        open_data_dir(tmp_path / "file")


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    check_unlocked(tmp_path)
    with (
        hold_lock(str(tmp_path)),
        pytest.raises(BadInputError, match="in use by a running cluster"),
    ):
        check_unlocked(tmp_path)
    check_unlocked(tmp_path)


def test_copies_are_accepted_where_an_operator_says_so(tmp_path: Path) -> None:
    """Nodes that are not there, or were never found to be copies, are left alone."""
    path = tmp_path / "node-0"
    RocksLog.open(path, NODE).close()
    shutil.copytree(path, tmp_path / "copy")
    RocksLog.open(path, NODE).close()
    shutil.rmtree(path)
    (tmp_path / "copy").rename(path)
    mark_stale(path, "node 1 has seen a later state of it")
    for _ in range(2):
        with pytest.raises(StaleLogError):
            RocksLog.open(path, NODE)
        accept_copies(tmp_path, 2)
        RocksLog.open(path, NODE).close()
        mark_stale(path, "node 1 has seen a later state of it")
    assert not (tmp_path / "node-1").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"directories": 7}', "\x00"])
def test_a_formation_that_can_not_be_read_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "formation.json").write_text(text)
    assert formation.load(tmp_path) == ()
    assert formation.agreed(tmp_path, ("a", "b")) == ("a", "b")


def test_a_directory_of_another_formation_is_refused(tmp_path: Path) -> None:
    formation.save(tmp_path, ("a", "b"))
    assert formation.agreed(tmp_path, ()) == formation.agreed(tmp_path, ("a", "b")) == ("a", "b")
    with pytest.raises(ForeignLogError, match="belongs to another cluster"):
        formation.agreed(tmp_path, ("a", "c"))


def test_what_a_later_version_has_added_to_the_cluster_file_stays_in_it(tmp_path: Path) -> None:
    """An older version on one host must not take away what a newer one needs."""
    cluster = ClusterFile(
        cluster_id="x", partitions=1, ports=(1, 2), replicas=1, secret="s3cret", revision=4
    )
    save(tmp_path, cluster)
    later = {**json.loads((tmp_path / "cluster.json").read_text()), "added": {"by": [2]}}
    (tmp_path / "cluster.json").write_text(json.dumps(later))
    found = open_data_dir(tmp_path)
    assert found is not None and (found.revision, found.secret) == (4, "s3cret")
    assert "added" not in repr(found)
    save(tmp_path, replace(found, revision=5))
    assert json.loads((tmp_path / "cluster.json").read_text()) == {**later, "revision": 5}
