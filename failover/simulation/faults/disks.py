"""Faults of disks, clocks and handlers: chosen by the seed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from failover.simulation.clients.oversize import Oversize
from failover.simulation.faults.schedule import FaultSchedule, Kinds

if TYPE_CHECKING:
    from failover.simulation.cluster import SimulatedCluster
    from failover.simulation.nodes.disks import Directory
    from failover.simulation.nodes.process import Process

GONE_MS: Final = (300, 20_000)
BAD_MS: Final = (2_000, 40_000)
"""How long a disk stays slow or full."""

SLOWEST: Final = 10 / 3
"""A sync takes at most this many leases: 500 ms where a lease is 150."""

WILD_SPEEDS: Final = (0.75, 0.85, 1.1)
"""Further from the true speed than a promise's margin; faster ones would end sessions early."""

WILD_MS: Final = (10_000, 60_000)
FROZEN_MS: Final = (50, 40_000)
FOREVER_MS: Final = 1 << 60
WRONG_MS: Final = (1_000, 3 * 86_400_000)
EMITS_MAX: Final = 3


class DiskInjector(FaultSchedule):
    """Injects faults of disks, clocks and handlers until :meth:`end`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster, "disk faults", cluster.world.settings.disk_faults)
        self._copies: dict[int, Directory] = {}
        self._wild: set[int] = set()
        self._huge = Oversize(cluster.callers)

    def begin(self) -> None:
        """Start every kind whose rate is not 0; copies of all directories are made now."""
        for process in self._cluster.processes:
            self._copies[process.node_id] = process.directory.copy()
        self._begin()

    def end(self) -> None:
        """Repair what is not permanently broken; one disk may stay slow."""
        self._is_on = False
        self._world.poison = -1
        self._cluster.network.slow.clear()
        for node_id in sorted(self._wild):
            self._tame(node_id)
        for process in self._cluster.processes:
            process.set_wall(0)
            self._well(process)
        if not self._world.settings.disk_faults.slow_disk:
            return
        if self._rng.random() < 0.4:
            process = self._rng.choice(self._cluster.incomplete() or self._cluster.processes)
            high = self._slowness()
            self._world.fault("slow disk stays", f"node {process.node_id}, up to {high} ms")
            process.disk.sync_ms = (0, high)

    def _well(self, process: Process) -> None:
        process.disk.sync_ms, process.disk.is_full = None, False
        disk = process.disk
        disk.fails_writes = disk.fails_syncs = disk.fails_reads = 0

    def _slowness(self) -> int:
        return self._draw((50, int(SLOWEST * self._world.settings.replica_lease_ms)))

    # --- disks

    def _slow_disk(self) -> None:
        process, high = self._any(), self._slowness()
        duration_ms = self._draw(BAD_MS)
        self._world.fault("slow disk", f"node {process.node_id}, up to {high} ms")
        process.disk.sync_ms = (int(high * self._rng.random()), high)
        self._world.after(duration_ms, self._well, process)

    def _full_disk(self) -> None:
        process = self._any()
        self._world.fault("full disk", f"node {process.node_id}")
        process.disk.is_full = True
        self._world.after(self._draw(BAD_MS), self._well, process)

    def _failed_write(self) -> None:
        process = self._any()
        if process.is_alive:
            self._world.fault("failed write", f"node {process.node_id}")
            process.disk.fails_writes = 1
            process.died_mid_turn = self._start_later

    def _failed_sync(self) -> None:
        process = self._any()
        if process.is_alive:
            self._world.fault("failed sync", f"node {process.node_id}")
            process.disk.fails_syncs = 1
            process.died_mid_turn = self._start_later

    def _failed_read(self) -> None:
        """Let one of the next reads fail: a follower's catch-up, a group's, or a snapshot's."""
        process = self._any()
        if process.is_alive:
            self._world.fault("failed read", f"node {process.node_id}")
            process.disk.fails_reads = self._rng.choice((1, 1, 2))
            process.died_mid_turn = self._start_later

    def _start_later(self, node_id: int) -> None:
        self._world.after(self._draw(GONE_MS), self._cluster.start, node_id)

    def _rot(self) -> None:
        """Corrupt a checksum in synced data: the next opening of the log finds it."""
        self._when_bearable(self._rot_now)

    def _rot_now(self) -> None:
        process = self._any()
        if process.is_alive:
            self._world.fault("rotten disk", f"node {process.node_id} dies, its log is damaged")
            process.kill(process.log.unsynced // 2, 1)
            process.disk.is_rotten = True
            self._start_later(process.node_id)

    def _database(self) -> None:
        """Replace the database under its directory: it is another replica."""
        self._when_bearable(self._database_now)

    def _database_now(self) -> None:
        process = self._any()
        if process.is_alive:
            self._world.fault("database gone", f"node {process.node_id} dies, its database is gone")
            self._cluster.lose_disk(process.node_id)
            self._start_later(process.node_id)

    def _stale_copy(self) -> None:
        """Restore a copy of a directory, and make another copy some time later."""
        process = self._any()
        if process.node_id not in self._copies:
            self._copies[process.node_id] = process.directory.copy()
        self._when_bearable(self._put_back)

    def _put_back(self) -> None:
        """Restore a copy of a directory; the files beside it stay as new as before."""
        rows = sorted(self._copies.items())
        self._rng.shuffle(rows)
        for node_id, copy in rows:
            process = self._cluster.processes[node_id]
            if copy.directory_id != process.directory_id:
                continue
            self._world.fault(
                "stale copy", f"node {node_id} dies and has an older copy of its directory"
            )
            process.kill(0, 1)
            process.put(self._copies.pop(node_id))
            self._start_later(node_id)
            return

    # --- clocks and handlers

    def _drift(self) -> None:
        """Let a clock run at another speed, within what replicas allow for."""
        process, skew = self._any(), self._world.settings.clock_skew
        if process.node_id in self._wild:
            return
        speed = 1 + skew * self._rng.choice((-1, 1, self._rng.uniform(-1, 1)))
        self._world.fault("clock drifts", f"node {process.node_id}, {speed:.3f} of true speed")
        self._cluster.set_speed(process.node_id, speed)

    def _wild_clock(self) -> None:
        """Let a clock run faster or slower than leases allow, and the others within the margin."""
        process = self._any()
        if self._wild:
            return
        speed, duration_ms = self._rng.choice(WILD_SPEEDS), self._draw(WILD_MS)
        self._world.fault("clock wild", f"node {process.node_id}, {speed} for {duration_ms} ms")
        self._wild.add(process.node_id)
        self._world.lawless_until = FOREVER_MS
        self._cluster.set_speed(process.node_id, speed)
        self._world.after(duration_ms, self._tame, process.node_id)

    def _tame(self, node_id: int) -> None:
        """End it; the promises made meanwhile expire two elections later."""
        if node_id in self._wild:
            self._wild.discard(node_id)
            self._cluster.set_speed(node_id, 1.0)
            election_ms = self._world.settings.replica_election_ms
            self._world.lawless_until = self._world.now + 2 * election_ms

    def _freeze(self) -> None:
        """Freeze a whole machine for a while: its steady clock stands still too.

        Half of the freezes happen in the millisecond in which it sends the message that renews its
        lease.
        """
        process, duration_ms = self._any(), self._draw(FROZEN_MS)
        self._world.fault("machine freezes", f"node {process.node_id}, for {duration_ms} ms")
        if self._rng.random() < 0.5:
            process.pause(duration_ms, freezes_clock=True)
            return

        def freeze_now(process: Process) -> None:
            if self._is_on:
                self._world.after(0, partial(process.pause, freezes_clock=True), duration_ms)

        self._cluster.checkers.replicated.upon_append[process.node_id] = freeze_now

    def _wall_clock(self) -> None:
        """Set one node's wall clock wrong, by seconds or days, and correct those of the others."""
        process = self._any()
        error_ms = self._rng.choice((-1, 1)) * self._draw(WRONG_MS)
        self._world.fault("wall clock set", f"node {process.node_id}, by {error_ms} ms")
        for other in self._cluster.processes:
            other.set_wall(error_ms if other is process else 0)

    def _handler(self) -> None:
        """Let the next handler raise, or the next that writes, right after one of its records."""
        self._world.may_fail = True
        self._world.poison = self._rng.randint(0, EMITS_MAX)

    # --- requests and links

    def _oversize(self) -> None:
        self._huge.call()

    def _slow_link(self) -> None:
        """Let a peer read too slowly for a while: no records are sent to it meanwhile."""
        one, other = self._rng.sample(range(len(self._cluster.processes)), 2)
        duration_ms = self._draw(BAD_MS)
        self._world.fault("slow link", f"node {other} takes little of node {one}'s")
        slow = self._cluster.network.slow
        slow.add((one, other))
        self._world.after(duration_ms, slow.discard, (one, other))

    KINDS: ClassVar[Kinds] = {
        "slow_disk": _slow_disk,
        "full_disk": _full_disk,
        "failed_write": _failed_write,
        "failed_sync": _failed_sync,
        "rot": _rot,
        "database": _database,
        "stale_copy": _stale_copy,
        "drift": _drift,
        "wall_clock": _wall_clock,
        "handler": _handler,
        "failed_read": _failed_read,
        "wild_clock": _wild_clock,
        "freeze": _freeze,
        "oversize": _oversize,
        "slow_link": _slow_link,
    }
