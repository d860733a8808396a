"""Clusters whose hosts read and write RocksDB: whatever they do, it holds what the model holds.

Each disk is one real directory, opened at every start of a process, and the log in memory beside
it. Processes die and keep what they wrote, as the operating system does; what a power failure
takes away is ``tests/crash``'s.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from failover.simulation.nodes import process
from failover.simulation.one_seed import run_seed
from failover.simulation.patches import patched
from failover.simulation.settings import GroupMix, Quiet, settings_for
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
from storage.log import MemoryLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from storage.batch import Batch
    from storage.log import Snapshot, Stored, Write

PARTITIONS = range(-1, 4)
IDENTITY = LogIdentity(cluster_id="simulated", node_id=0, partitions=PARTITIONS.stop - 1)


class MirroredLog(MemoryLog):
    """A log whose reads come from RocksDB; the checkers' view of what is synced is the model's."""

    def __init__(self, path: Path, opened: list[MirroredLog]) -> None:
        super().__init__()
        self._path = path
        self._opened = opened
        self._rocks: RocksLog | None = None

    @property
    def rocks(self) -> RocksLog:
        """The database, opened when it is first used."""
        if self._rocks is None:
            self._rocks = RocksLog.open(self._path, IDENTITY)
            self._opened.append(self)
        return self._rocks

    def write(self, writes: Sequence[Write], sync: bool) -> None:
        """Write to both."""
        self.rocks.write(writes, sync=False)
        super().write(writes, sync)

    def crash(self, kept: int = 0) -> MirroredLog:
        """Close the database and open it again: all that was written is there, ``kept`` or not."""
        self.close()
        survivor = MirroredLog(self._path, self._opened)
        memory = super().crash(max(kept, self.unsynced))
        survivor._live, survivor._safe = memory._live, memory._safe
        for partition in PARTITIONS:
            assert survivor.stored(partition) == memory.stored(partition)
            assert list(survivor.state(partition)) == list(memory.state(partition))
            assert [*survivor.batches(partition, 0)] == [*memory.batches(partition, 0)]
        return survivor

    def close(self) -> None:
        """Close the database, if it is open."""
        if self._rocks is not None:
            self._rocks.close()
            self._rocks = None
            self._opened.remove(self)

    def stored(self, partition: int) -> Stored:
        """Return what is there of a partition, which both agree about."""
        stored = self.rocks.stored(partition)
        assert stored == super().stored(partition)
        return stored

    def batches(self, partition: int, offset: int) -> Iterator[Batch]:
        """Iterate over the batches that end after ``offset``."""
        return self.rocks.batches(partition, offset)

    def state(self, partition: int, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the compacted state in key order."""
        return self.rocks.state(partition, prefix)

    def snapshot(self, partition: int) -> Snapshot:
        """Return the compacted state as it is now."""
        return self.rocks.snapshot(partition)


@pytest.mark.parametrize(("seed", "groups"), [(1, GroupMix.CLASSIC), (12, GroupMix.MIXED)])
def test_a_cluster_on_real_disks_keeps_its_promises(
    seed: int, groups: GroupMix, tmp_path: Path
) -> None:
    settings = settings_for(seed, groups)
    faults = replace(settings.disk_faults, stale_copy=0, failed_read=0)
    settings = replace(settings, disk_faults=faults, quiet=Quiet.NEVER, faulty_ms=40_000)
    numbers, opened = count(), list[MirroredLog]()

    def new_log() -> MirroredLog:
        return MirroredLog(tmp_path / str(next(numbers)), opened)

    try:
        with patched([(process, "MemoryLog", new_log)]):
            report = run_seed(seed, settings, groups=groups)
    finally:
        for log in tuple(opened):
            log.close()
    assert report.violation is None, report.violation
    assert _faults(report.injected), "processes end and come back"


def _faults(injected: Any) -> int:
    return int(injected["kill"] + injected["kill mid turn"] + injected["kill voter"])
