"""A cluster that is backed up, restored elsewhere and started has the same state, and goes on.

The coordinators run in this process, on real disks and sockets.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from actors.backup.catalogue import adapted, spread, topics
from actors.backup.collecting import make_backup
from actors.backup.files import segment_path
from actors.backup.manifest import BrokenBackupError
from actors.backup.restoring import prepare, restore_here
from actors.cluster.data_dir import open_data_dir
from actors.coordinator.state_copies import CopySlice, CopyStart
from actors.errors import BadInputError
from failover.catalogue.cluster_view import Node
from failover.catalogue.records import encode, node_record, topic_record
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
from tests.actors.backup.backups import CLUSTER_ID, committed, write_backup
from tests.actors.coordinator.test_coordinator import Caller, run
from tests.actors.coordinator.test_damaged_logs import (
    Trio,
    commit_somewhere,
    healed,
    trio,
    write_some,
)
from tests.failover.apis import asks
from tests.waiting import WITHIN_S

OFFSET_FETCH = 9


class TrioLeaders:
    """The coordinators of a :class:`Trio`, asked from a thread beside its event loop."""

    partitions = 3
    replicas = 3

    def __init__(self, cluster: Trio) -> None:
        self.cluster_id = cluster.spec.cluster_id
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()

    def _ask(self, method: str, node_id: int, *arguments: int) -> Any:
        async def ask() -> Any:
            return getattr(self._cluster.coordinators[node_id], method)(*arguments)

        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result(WITHIN_S)

    def find(self) -> Mapping[int, int]:
        return {number: node_id for node_id in range(3) for number in self._ask("leads", node_id)}

    def begin(self, node_id: int, partition: int) -> CopyStart:
        start: CopyStart = self._ask("begin_copy", node_id, partition)
        return start

    def read(self, node_id: int, partition: int, copy_id: int) -> CopySlice:
        found: CopySlice = self._ask("read_copy", node_id, partition, copy_id)
        return found


async def committed_offsets(cluster: Trio) -> dict[str, int]:
    """Ask every coordinator for the offsets of all groups; each answers for those that it leads."""
    found: dict[str, int] = {}
    for address in (place.listener for place in cluster.spec.places):
        caller = await Caller.to(address.port)
        try:
            for number in range(30):
                answer = await caller.ask(OFFSET_FETCH, asks.fetch(f"group-{number}"))
                for group_id, offsets in asks.offsets_in(answer).items():
                    found |= dict.fromkeys([group_id] if offsets else [], sum(offsets.values()))
        finally:
            caller.close()
    return found


def test_a_cluster_is_restored_and_goes_on(tmp_path: Path) -> None:
    async def test() -> None:
        before = tmp_path / "before"
        async with trio(before) as cluster:
            await write_some(cluster)
            await healed(cluster)
            expected = await committed_offsets(cluster)
            making = asyncio.to_thread(make_backup, TrioLeaders(cluster), tmp_path / "b")
            manifest = await making
            await commit_somewhere(cluster, "group-1", 77)
        assert expected == {f"group-{number}": number for number in range(30)}
        assert all(row.epoch > 0 for row in manifest.files)

        restore_here(prepare(tmp_path / "b", None), tmp_path / "after")
        file = open_data_dir(tmp_path / "after")
        assert file is not None
        assert file.cluster_id == manifest.cluster_id
        again = Trio(tmp_path / "after")
        again.spec = replace(again.spec, cluster_id=file.cluster_id, directories=file.directories)
        await again.start()
        try:
            await healed(again)
            assert await committed_offsets(again) == expected
            for number in range(3):
                row = again.row(again.leader(number), number)
                assert row["epoch"] > manifest.file_of(number).epoch
                assert row["high_watermark"] > manifest.file_of(number).offset
            await commit_somewhere(again, "group-1", 78)
            found = await committed_offsets(again)
            assert found == {**expected, "group-1": 78}
        finally:
            for each in again.coordinators:
                await each.stop()

    run(test)


def test_each_node_gets_the_partitions_that_it_holds(tmp_path: Path) -> None:
    rows = {0: [committed("a", 1)], 2: [committed("b", 2)]}
    write_backup(tmp_path / "b", rows, partitions=3, replicas=2)
    restore_here(prepare(tmp_path / "b", None), tmp_path / "data")
    others = (1_000_000, 1_000_001, 1_000_002)
    for node_id, held in enumerate([{0, 2}, {0, 1}, {1, 2}]):
        identity = LogIdentity(cluster_id=CLUSTER_ID, node_id=node_id, partitions=3, others=others)
        log = RocksLog.open(tmp_path / "data" / f"node-{node_id}", identity)
        for number in range(3):
            stored = log.stored(number)
            is_held = number in held
            assert (stored.applied_offset, stored.last_epoch) == ((100, 5) if is_held else (0, 0))
            assert stored.end_offset == stored.applied_offset == stored.high_watermark
            assert list(log.state(number)) == (rows.get(number, []) if is_held else [])
        assert log.stored(-1).applied_offset == 100
        log.close()


def test_another_number_of_replicas_can_be_asked_for(tmp_path: Path) -> None:
    write_backup(tmp_path / "b", {}, partitions=3, replicas=3)
    assert prepare(tmp_path / "b", 1).placement == ((0,), (1,), (2,))
    assert prepare(tmp_path / "b", 5).placement[1] == (1, 2, 0)
    assert prepare(tmp_path / "b", 5).cluster.replicas == 5


def test_a_directory_with_data_is_refused(tmp_path: Path) -> None:
    write_backup(tmp_path / "b", {})
    restoration = prepare(tmp_path / "b", None)
    restore_here(restoration, tmp_path / "data")
    with pytest.raises(BadInputError, match="belongs to a cluster"):
        restore_here(restoration, tmp_path / "data")
    (tmp_path / "data" / "cluster.json").unlink()
    with pytest.raises(BadInputError, match="has logs but no"):
        restore_here(restoration, tmp_path / "data")


def test_what_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    write_backup(tmp_path / "b", {0: [committed("a", 1)]})
    restoration = prepare(tmp_path / "b", None)
    path = segment_path(tmp_path / "b", 0)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BrokenBackupError):
        prepare(tmp_path / "b", None)
    with pytest.raises(BrokenBackupError):
        restore_here(restoration, tmp_path / "data")
    assert [entry.name for entry in (tmp_path / "data").iterdir() if "node" in entry.name] == []


def test_the_catalogue_is_adapted_to_the_new_cluster(tmp_path: Path) -> None:
    own, other = UUID(int=1), UUID(int=2)
    placement = ((0, 1), (1, 0))
    rows = [
        encode(node_record(Node(0, "old", 9092, True, None))),
        encode(topic_record("__consumer_offsets", own, ((2,), (2,)))),
        encode(topic_record("t", other, ((1,),))),
        (b"\x00\xffnewer", b"\x00\x00"),
    ]
    assert list(adapted(rows, placement)) == [
        encode(topic_record("__consumer_offsets", own, placement)),
        rows[2],
        rows[3],
    ]


def test_imported_topics_are_spread_over_the_nodes() -> None:
    found = spread("t", 7, nodes=3, replicas=2)
    assert len(found) == 7
    assert {node for nodes in found for node in nodes} == {0, 1, 2}
    assert all(len(set(nodes)) == 2 for nodes in found)
    assert spread("t", 1, nodes=1, replicas=3) == ((0,),)
    topic_id = UUID(int=5)
    assert list(topics({"t": (topic_id, 7)}, 3, 2)) == [encode(topic_record("t", topic_id, found))]
