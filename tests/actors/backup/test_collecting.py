"""A backup of a cluster: from the leaders, also when they move meanwhile."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from actors.backup import collecting
from actors.backup.collecting import make_backup
from actors.backup.files import read_partition, verify
from actors.coordinator.state_copies import CopySlice, CopyStart
from actors.errors import FailureError
from tests.actors.backup.backups import committed

STATE = {0: [committed("a", 1), committed("b", 2)], 1: [committed("c", 3)]}


class FakeLeaders:
    """Two partitions, both led by node 7; each slice has one record."""

    cluster_id = "fake"
    partitions = 2
    replicas = 3

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.failures: dict[int, list[str]] = {}
        self.leads: Mapping[int, int] = dict.fromkeys((-1, 0, 1, 1_000_000, 1_000_001), 7)
        self._left: dict[int, list[tuple[bytes, bytes]]] = {}

    def find(self) -> Mapping[int, int]:
        return self.leads

    def begin(self, node_id: int, partition: int) -> CopyStart:
        assert node_id == 7
        self.begun.append(partition)
        self._left[partition] = list(STATE.get(partition, ()))
        return CopyStart(len(self.begun), 10 + len(self.begun), 4)

    def read(self, node_id: int, partition: int, copy_id: int) -> CopySlice:
        if failures := self.failures.get(partition):
            return CopySlice((), failures.pop())
        left = self._left[partition]
        return CopySlice((left.pop(0),) if left else ())


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "LEADER_S", 0.0)


def test_every_partition_is_copied_the_catalogue_last(tmp_path: Path) -> None:
    leaders = FakeLeaders()
    manifest = make_backup(leaders, tmp_path / "b")
    assert leaders.begun == [0, 1, 1_000_000, 1_000_001, -1]
    assert verify(tmp_path / "b") == manifest
    assert (manifest.cluster_id, manifest.partitions, manifest.replicas) == ("fake", 2, 3)
    for number in (0, 1):
        row = manifest.file_of(number)
        assert (row.offset, row.epoch) == (11 + number, 4)
        assert list(read_partition(tmp_path / "b", row)) == STATE[number]


def test_how_far_a_backup_is_can_be_shown(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    make_backup(FakeLeaders(), tmp_path / "b", lambda *step: told.append(step))
    assert told == [(done, 5) for done in range(5)]


def test_a_copy_that_is_gone_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "LEADER_S", 20.0)
    leaders = FakeLeaders()
    leaders.failures[0] = ["the leader moved", "the leader moved"]
    manifest = make_backup(leaders, tmp_path / "b")
    assert leaders.begun.count(0) == 3
    assert list(read_partition(tmp_path / "b", manifest.file_of(0))) == STATE[0]
    assert manifest.file_of(0).offset > 11


def test_a_backup_without_a_partition_is_none(tmp_path: Path) -> None:
    leaders = FakeLeaders()
    leaders.leads = {0: 7}
    with pytest.raises(FailureError, match="partition 1 has no leader"):
        make_backup(leaders, tmp_path / "b")
    leaders = FakeLeaders()
    leaders.failures[1] = ["the leader moved"] * 9
    with pytest.raises(FailureError):
        make_backup(leaders, tmp_path / "b")
    assert list(tmp_path.iterdir()) == []
