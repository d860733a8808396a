"""Check that voters change one at a time, to replicas that caught up, and stay as committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.simulation.event_log import Violation
from storage.control import voters_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from failover.simulation.checkers.committed import CommittedLogs
    from failover.simulation.nodes.process import Process
    from storage.batch import Batch
    from storage.log import SaveVoters
    from storage.messages import ReplicaKey


class VoterChanges:
    """Checks the records about voters; ``first`` are the initial voters of the partitions."""

    def __init__(self, committed: CommittedLogs, processes: Mapping[int, Process]) -> None:
        self._committed = committed
        self._processes = processes
        self.first: Mapping[int, tuple[ReplicaKey, ...]] = {}

    def may_change(self, process: Process, number: int, batch: Batch) -> None:
        """Check that voters change one at a time, each after the previous change is committed.

        A new voter has everything that was committed before the leader's epoch: it counts at once.
        """
        committed, wanted = self._committed[number], voters_in(batch)
        assert wanted is not None
        why = ""
        if batch.leader_epoch not in committed.epochs:
            why = f"nothing of epoch {batch.leader_epoch} is committed"
        elif any(
            other.control and voters_in(other) is not None
            for other in process.log.batches(number, committed.end_offset)
            if other.base_offset < batch.base_offset
        ):
            why = "the change before is not committed"
        elif len({*self._voters(number)} ^ {*wanted}) != 1:
            why = "it is not a change of one"
        elif any(self._is_behind(key, number, batch.leader_epoch) for key in wanted):
            why = "one that comes in lacks what was committed before this epoch"
        if why:
            raise Violation(
                f"node {process.node_id} changes the voters at {batch.base_offset}, when {why}",
                f"partition {number}",
            )

    def may_save(self, process: Process, write: SaveVoters) -> None:
        """Check that voters saved permanently, also those in a snapshot, are committed."""
        number = write.partition
        if write.voters not in (self.first.get(number), *self._committed[number].voters_so_far):
            raise Violation(
                f"node {process.node_id} saves voters that were never committed, as of"
                f" {write.offset}",
                f"partition {number}",
            )

    def _voters(self, number: int) -> tuple[ReplicaKey, ...]:
        return self._committed[number].voters or self.first.get(number, ())

    def _is_behind(self, key: ReplicaKey, number: int, epoch: int) -> bool:
        """Return whether a replica that is no voter yet lacks commits from before an epoch."""
        last = self._committed[number].last_before(epoch)
        if last is None or key in self._voters(number):
            return False
        disk = self._processes[key.node_id].disks.get(key.directory_id)
        return disk is None or disk.synced(number).end_offset < last.end_offset
