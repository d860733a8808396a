"""Restore a whole machine from an older copy: its peers detect that, and do not trust it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from failover.simulation.cluster import SimulatedCluster
    from failover.simulation.nodes.process import Process
    from storage.disk.incarnation import Incarnation

SHARE: Final = 0.12
"""In one of this many seeds with stale copies."""

PATIENCE_MS: Final = 90_000
LOOK_MS: Final = 1_000
STARTS: Final = 2
"""How often its process restarts between the copy and the restoration."""


def may_come(cluster: SimulatedCluster) -> bool:
    """Return whether this seed has one."""
    rng = cluster.world.random("older machine")
    return bool(cluster.world.settings.disk_faults.stale_copy) and rng.random() < SHARE


def put_back(cluster: SimulatedCluster) -> None:
    """Copy a machine, restart its process, and restore the copy; between, all is replicated."""
    world = cluster.world
    slow = [process for process in cluster.processes if process.disk.sync_ms is not None]
    process = world.random("which older machine").choice(slow or cluster.processes)
    if not _rests(cluster):
        return
    copy = process.directory.copy()
    copy.is_unmarked = True
    for _ in range(STARTS):
        process.kill(process.log.unsynced, 1)
        world.run(world.now + LOOK_MS)
        cluster.start(process.node_id)
        if not (_is_known(cluster, process) and _rests(cluster)):
            return
    if copy.directory_id != process.directory_id:
        return
    world.fault("stale machine", f"node {process.node_id} dies and is the machine of before")
    process.kill(0, 1)
    process.put(copy)
    process.disk.witness = copy.incarnation.seen
    world.run(world.now + LOOK_MS)
    cluster.start(process.node_id)


def _rests(cluster: SimulatedCluster) -> bool:
    """Wait until every disk exists and everything is replicated; False when that takes long."""
    world = cluster.world
    deadline = world.now + PATIENCE_MS
    while cluster.unreplicated() or not cluster.may_lose_disk():
        if world.now >= deadline:
            return False
        world.run(world.now + LOOK_MS)
    return True


def _is_known(cluster: SimulatedCluster, process: Process) -> bool:
    """Wait until every other process has seen this one's newest start; False: not soon."""
    world, newest = cluster.world, process.directory.incarnation
    deadline = world.now + PATIENCE_MS
    others = [other for other in cluster.processes if other is not process]
    while not all(_remembers(other, newest) for other in others):
        if world.now >= deadline:
            return False
        world.run(world.now + LOOK_MS)
    return True


def _remembers(process: Process, newest: Incarnation) -> bool:
    row = (newest.directory_id, newest.number, newest.tokens[-1])
    return process.is_alive and row in process.directory.memory.rows()
