"""Makes the data directories of a cluster from a backup, before the cluster's first start.

Each node begins with the state of the backup as its compacted state, at the offset and in the epoch
that it had; the log goes on behind it. So for the coordinators the first start is a restart.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from actors.backup.catalogue import adapted
from actors.backup.files import in_batches, read_partition, verify
from actors.backup.manifest import numbers_of
from actors.backup.steps import unheard
from actors.cluster import data_dir
from actors.cluster.data_dir import CLUSTER_FILE, ClusterFile
from actors.coordinator import formation
from actors.errors import BadInputError, FailureError
from failover.partition_kinds import CATALOG, SHARE_STATE
from failover.partition_kinds import replicas as placed_replicas
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
from storage.log import BeginInstall, FinishInstall, InstallSlice, LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from actors.backup.catalogue import Placement
    from actors.backup.manifest import Manifest
    from storage.batch import RawRecord

NODES: Final = "node-*"
"""What a node has in a data directory: its log, and the files beside it."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """A backup, and the cluster that begins with it."""

    backup: Path
    manifest: Manifest
    cluster: ClusterFile

    @property
    def placement(self) -> Placement:
        """The nodes of each partition."""
        return self.cluster.replica_nodes

    def write_nodes(
        self,
        directory: Path,
        node_ids: Sequence[int],
        step: Callable[[int, int], object] = unheard,
    ) -> dict[int, str]:
        """Write the logs of these nodes to a data directory; return their directory ids.

        If that fails, all of them are removed. Raises CommandError. ``step`` is told how many nodes
        of all are written.
        """
        ids: dict[int, str] = {}
        try:
            for node_id in node_ids:
                step(len(ids), len(node_ids))
                ids[node_id] = self._write_node(directory, node_id)
        except (LogError, OSError) as error:
            clear(directory)
            raise FailureError(f"{directory} cannot be written: {error}") from error
        except BaseException:
            clear(directory)
            raise
        return ids

    def _write_node(self, directory: Path, node_id: int) -> str:
        partitions = self.manifest.partitions
        identity = LogIdentity(
            cluster_id=self.cluster.cluster_id,
            node_id=node_id,
            partitions=partitions,
            others=tuple(SHARE_STATE.numbers(partitions)),
        )
        log = RocksLog.open(directory / f"node-{node_id}", identity)
        try:
            nodes_of = placed_replicas(self.placement)
            for number in numbers_of(partitions):
                if number == CATALOG.first or node_id in nodes_of[number]:
                    self._write_partition(log, number)
        finally:
            log.close()
        return log.directory_id

    def _write_partition(self, log: RocksLog, number: int) -> None:
        row = self.manifest.file_of(number)
        if not row.offset:
            return
        log.write([BeginInstall(number, row.offset, row.epoch)], sync=False)
        for records in in_batches(self._records(number)):
            log.write([InstallSlice(number, records)], sync=False)
        log.write([FinishInstall(number, row.offset, row.epoch)], sync=True)

    def _records(self, number: int) -> Iterator[RawRecord]:
        rows = read_partition(self.backup, self.manifest.file_of(number))
        return adapted(rows, self.placement) if number == CATALOG.first else rows


def prepare(backup: Path, replicas: int | None) -> Restoration:
    """Verify a backup and return how it is restored; ``replicas`` None: as many as there were.

    Raises CommandError.
    """
    manifest = verify(backup)
    wanted = manifest.replicas if replicas is None else replicas
    count = min(wanted, manifest.partitions)
    placement = tuple(
        tuple((first + more) % manifest.partitions for more in range(count))
        for first in range(manifest.partitions)
    )
    cluster = ClusterFile(
        cluster_id=manifest.cluster_id,
        partitions=manifest.partitions,
        ports=(),
        replicas=wanted,
        secret=data_dir.new_secret(),
        replica_nodes=placement,
    )
    return Restoration(backup, manifest, cluster)


def restore_here(
    restoration: Restoration, directory: Path, step: Callable[[int, int], object] = unheard
) -> None:
    """Make a data directory with all nodes of a cluster. Raises CommandError.

    ``step`` is told how many nodes of all are written.
    """
    refuse_data(directory)
    data_dir.check_unlocked(directory)
    ids = restoration.write_nodes(directory, range(restoration.cluster.partitions), step)
    complete(restoration.cluster, directory, [ids[node_id] for node_id in sorted(ids)], ids)


def complete(
    cluster: ClusterFile, directory: Path, directories: Sequence[str], node_ids: Iterable[int]
) -> None:
    """Record the directories of all nodes, with the nodes that are here; then it is a cluster."""
    for node_id in node_ids:
        formation.save(directory / f"node-{node_id}", directories)
    data_dir.save(directory, replace(cluster, directories=tuple(directories)))


def refuse_data(directory: Path) -> None:
    """Raise BadInputError if a data directory holds data; create it if it does not exist."""
    if data_dir.open_data_dir(directory) is not None:
        raise BadInputError(
            f"{directory} belongs to a cluster (it has a {CLUSTER_FILE}): restore to a new "
            "data directory."
        )


def clear(directory: Path) -> None:
    """Remove the nodes of a restoration that was not completed."""
    for path in directory.glob(NODES):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
