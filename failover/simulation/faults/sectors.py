"""Faults of single writes and sectors: writes that take long, and those that land elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from failover.simulation.faults.disks import BAD_MS, GONE_MS
from failover.simulation.faults.schedule import FaultSchedule, Kinds

if TYPE_CHECKING:
    from failover.simulation.cluster import SimulatedCluster
    from failover.simulation.nodes.process import Process
    from storage.batch import Batch

STAYS: Final = 0.4
"""How often one disk's writes stay slow after the last fault."""

WRITE_MS: Final = (10, 500)
"""How long the slowest writes of a slow disk take: from a part of a lease to several leases."""

SECTORS: Final = 3
"""A write that lands on another batch leaves at its own place what was there before: a third."""

FOUND_MS: Final = (1_000, 20_000)
"""A process whose log has a misdirected sector restarts after this long, unless it ended before."""


class SectorInjector(FaultSchedule):
    """Injects faults of writes and sectors until :meth:`end`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster, "sector faults", cluster.world.settings.sector_faults)

    def begin(self) -> None:
        """Start every kind whose rate is not 0."""
        self._begin()

    def end(self) -> None:
        """Let misdirected sectors be found; the writes of one disk may stay slow.

        Call it after the other injectors have ended: at most one disk stays slow.
        """
        self._is_on = False
        for process in self._cluster.processes:
            process.disk.write_ms = None
            self._restart(process, process.life)
        if not self._world.settings.sector_faults.slow_write or self._rng.random() >= STAYS:
            return
        processes = self._cluster.processes
        slow = [process for process in processes if process.disk.sync_ms is not None]
        process = self._rng.choice(slow or self._cluster.incomplete() or processes)
        high = self._draw(WRITE_MS)
        self._world.fault("slow writes stay", f"node {process.node_id}, up to {high} ms")
        process.disk.write_ms = (0, high)

    def _slow_write(self) -> None:
        process, high = self._any(), self._draw(WRITE_MS)
        self._world.fault("slow writes", f"node {process.node_id}, up to {high} ms")
        process.disk.write_ms = (int(high * self._rng.random()), high)
        self._world.after(self._draw(BAD_MS), self._well, process)

    def _well(self, process: Process) -> None:
        if self._is_on:
            process.disk.write_ms = None

    def _misdirected(self) -> None:
        """Let one batch be read where another was written, in synced data of one log."""
        self._when_bearable(self._misdirect)

    def _misdirect(self) -> None:
        process = self._any()
        if not process.is_alive:
            return
        batches = [
            (number, batch)
            for number in self._cluster.numbers
            for batch in process.log.synced_batches(number)
            if not batch.control
        ]
        if len(batches) < SECTORS:
            return
        place, other, before = self._rng.sample(batches, SECTORS)
        if self._rng.random() < 0.5:
            self._reads_elsewhere("misdirected read", process, place, other)
        else:
            self._reads_elsewhere("misdirected write", process, place, other)
            process.disk.misdirected[_place(other)] = before
        process.died_mid_turn = self._start_later
        self._world.after(self._draw(FOUND_MS), self._restart, process, process.life)

    def _reads_elsewhere(
        self, fault: str, process: Process, at: tuple[int, Batch], found: tuple[int, Batch]
    ) -> None:
        (partition, offset), (other, other_offset) = _place(at), _place(found)
        self._world.fault(
            fault,
            f"node {process.node_id} has at {offset} of partition {partition} what belongs to"
            f" {other_offset} of partition {other}",
        )
        process.disk.misdirected[partition, offset] = found

    def _restart(self, process: Process, life: int) -> None:
        """End a process whose log has a misdirected sector: its next start reads everything."""
        if process.disk.misdirected and process.is_alive and process.life == life:
            process.kill(process.log.unsynced, 1)
            self._start_later(process.node_id)

    def _start_later(self, node_id: int) -> None:
        self._world.after(self._draw(GONE_MS), self._cluster.start, node_id)

    KINDS: ClassVar[Kinds] = {"slow_write": _slow_write, "misdirected": _misdirected}


def _place(row: tuple[int, Batch]) -> tuple[int, int]:
    """Return where a partition's batch belongs: partition and base offset."""
    return row[0], row[1].base_offset
