"""A simulated disk: writes that hold a process, and sectors that belong elsewhere."""

from dataclasses import replace
from typing import Any

import pytest

from failover.simulation.cluster import SimulatedCluster
from failover.simulation.nodes.disks import Directory, Disk, FaultyLog
from failover.simulation.one_seed import small_logs
from failover.simulation.settings import CALM
from failover.simulation.world import World
from storage.batch import Batch
from storage.disk.incarnation import Incarnation
from storage.log import AppendBatch, CorruptLogError, DropBefore, MemoryLog

FORMED_MS = 20_000
SLOW_MS = 5_000
WRITE_MS = 90
"""A lease is longer: who leads goes on to lead."""


def batches(count: int) -> list[Batch]:
    return [Batch(offset, 1, 0, ((b"key", b"%d" % offset),)) for offset in range(count)]


def directory(count: int) -> Directory:
    log = MemoryLog()
    log.write([AppendBatch(0, each) for each in batches(count)], sync=True)
    return Directory("a", log, Incarnation("a"))


def test_a_misdirected_batch_is_found_by_whoever_reads_it() -> None:
    disk, where = Disk(), directory(4)
    disk.misdirected[0, 2] = (0, batches(4)[1])
    log = FaultyLog(where.log, disk)
    assert [each.base_offset for each in log.batches(0, 3)] == [3]
    with pytest.raises(CorruptLogError, match="that of another place"):
        list(log.batches(0, 1))
    with pytest.raises(CorruptLogError, match="that of another place"):
        disk.open(where, "start")


def test_the_place_counts_not_the_content() -> None:
    """A batch that was written to another partition has a checksum that fits it, all the same."""
    disk, where = Disk(), directory(2)
    disk.misdirected[0, 1] = (1, batches(2)[1])
    with pytest.raises(CorruptLogError):
        disk.open(where, "start")


def test_a_misdirected_batch_that_was_dropped_does_no_harm() -> None:
    disk, where = Disk(), directory(4)
    disk.misdirected[0, 1] = (0, batches(4)[3])
    where.log.write([DropBefore(0, 2)], sync=True)
    disk.open(where, "start")
    assert disk.misdirected == {}


def test_another_disk_has_no_misdirected_batches() -> None:
    disk = Disk(misdirected={(0, 1): (0, batches(2)[0])})
    disk.replaced()
    disk.open(directory(2), "start")


def test_a_slow_write_holds_what_follows_it_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1, replace(CALM, commit_interval_ms=300))
    left: list[tuple[int, int]] = []
    with small_logs():
        cluster = SimulatedCluster(world)
        cluster.form()
        world.run(FORMED_MS)
        slow = next(each for each in cluster.processes if each.leading())
        began: list[int] = []
        go_ahead, send, now = world.go_ahead, cluster.network.send, slow.local_now

        def noted_go_ahead(duration_ms: int) -> None:
            began.append(world.now)
            go_ahead(duration_ms)

        def noted_send(sender: Any, node_id: int, messages: Any) -> None:
            assert not world.ahead_ms
            if sender is slow:
                left.append((world.now, now()))
            send(sender, node_id, messages)

        monkeypatch.setattr(world, "go_ahead", noted_go_ahead)
        monkeypatch.setattr(cluster.network, "send", noted_send)
        slow.disk.write_ms = (WRITE_MS, WRITE_MS)
        world.run(world.now + SLOW_MS)
    assert began and left and not world.ahead_ms
    assert not [
        (at, start) for at, _ in left for start in began if start < at < start + WRITE_MS
    ], "nothing leaves in the middle of a write"
    assert left == sorted(left), "the clock of the process never goes back"
    assert slow.is_alive and slow.leading()


def test_what_was_to_leave_after_a_slow_write_does_not_when_the_process_dies_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(1, replace(CALM, commit_interval_ms=300))
    with small_logs():
        cluster = SimulatedCluster(world)
        cluster.form()
        world.run(FORMED_MS)
        slow = next(each for each in cluster.processes if each.leading())
        sent: list[int] = []
        go_ahead, send = world.go_ahead, cluster.network.send

        def dies_meanwhile(duration_ms: int) -> None:
            world.after(1, slow.kill, 0, 1)
            go_ahead(duration_ms)

        def noted_send(sender: Any, node_id: int, messages: Any) -> None:
            if sender is slow and not slow.is_alive:
                sent.append(world.now)
            send(sender, node_id, messages)

        monkeypatch.setattr(world, "go_ahead", dies_meanwhile)
        monkeypatch.setattr(cluster.network, "send", noted_send)
        slow.disk.write_ms = (WRITE_MS, WRITE_MS)
        world.run(world.now + SLOW_MS)
    assert not slow.is_alive and sent == []
