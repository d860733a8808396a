"""Makes a backup of what is left of a cluster whose majority is lost; nothing of it is changed.

Of each partition the newest copy counts, with every record in its log: those that were not known to
be committed may have been acknowledged by replicas that are gone. If a majority of a partition's
voters is left, nothing that was acknowledged is missing, as one of them would be elected.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.backup.files import new_backup, verify, write_manifest, write_partition
from actors.backup.manifest import Manifest, numbers_of
from actors.backup.stopped_log import check_stopped, open_copy
from actors.cluster import data_dir
from actors.cluster.data_dir import ClusterFile
from actors.cluster.directory_copy import NODE
from actors.cluster.host_agent import directories_in
from actors.coordinator.state_copies import state_before
from actors.errors import BadInputError, FailureError
from failover.partition_kinds import CATALOG, kind_of, title_of
from storage.control import voters_in
from storage.log import LogError
from storage.messages import ReplicaKey
from storage.quorum import majority

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.backup.manifest import PartitionFile
    from storage.disk.rocks import RocksLog

REPORT: Final = "recovery.txt"
"""The file in the backup that says what was found, and what may be missing."""


@dataclass(frozen=True, slots=True)
class Survivor:
    """A node's log that can be read: a copy of its directory."""

    key: ReplicaKey
    log: RocksLog


@dataclass(frozen=True, slots=True)
class Choice:
    """The newest copy of a partition, if any is left, and which of its voters are left."""

    partition: int
    source: Survivor | None
    end_offset: int
    epoch: int
    voters: frozenset[ReplicaKey]
    left: frozenset[ReplicaKey]

    @property
    def is_complete(self) -> bool:
        """Whether nothing that was acknowledged is missing."""
        return len(self.left) >= majority(len(self.voters))

    def sentence(self) -> str:
        """Say where the partition comes from, and what may be missing."""
        if self.source is None:
            return f"{title_of(self.partition)}: NOTHING IS LEFT, it begins empty"
        found = (
            f"{title_of(self.partition)}: from node {self.source.key.node_id}, offset "
            f"{self.end_offset}, epoch {self.epoch}, {len(self.left)} of {len(self.voters)} voters "
            "left"
        )
        if self.is_complete:
            return f"{found}: complete"
        return f"{found}: WHAT WAS ACKNOWLEDGED AFTER THAT OFFSET IS MISSING, if anything was"


def recover(directories: Sequence[Path], target: Path) -> tuple[Manifest, list[str]]:
    """Write a backup of the nodes in these data directories; return it, and what was found.

    Raises CommandError: if a cluster runs on a directory, if they belong to several clusters, or if
    no log can be read.
    """
    cluster = _cluster_of(directories)
    with new_backup(target) as draft:
        copies = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        survivors: list[Survivor] = []
        try:
            notes = _open_all(directories, copies, survivors)
            if not survivors:
                raise FailureError(" ".join(notes) or "There is no log in these directories.")
            choices = [
                _choose(cluster, number, survivors, notes)
                for number in numbers_of(cluster.partitions)
            ]
            manifest = Manifest(
                cluster_id=cluster.cluster_id,
                partitions=cluster.partitions,
                replicas=cluster.replicas,
                files=tuple(_written(draft, choice) for choice in choices),
            )
        except LogError as error:
            raise FailureError(str(error)) from error
        finally:
            for survivor in survivors:
                survivor.log.close()
            shutil.rmtree(copies, ignore_errors=True)
        said = [*notes, *(choice.sentence() for choice in choices)]
        (draft / REPORT).write_text("".join(f"{line}\n" for line in said))
        write_manifest(draft, manifest)
        return verify(draft), said


def _cluster_of(directories: Sequence[Path]) -> ClusterFile:
    """Return the newest cluster file of the directories."""
    newest: ClusterFile | None = None
    for directory in directories:
        check_stopped(directory)
        found = data_dir.open_data_dir(directory)
        assert found is not None
        if newest is not None and found.cluster_id != newest.cluster_id:
            raise BadInputError(
                f"The directories belong to several clusters: {newest.cluster_id} and "
                f"{found.cluster_id}."
            )
        if newest is None or found.revision > newest.revision:
            newest = found
    assert newest is not None
    if not newest.directories:
        raise BadInputError("This cluster was never formed: there is nothing to recover.")
    return newest


def _open_all(directories: Sequence[Path], copies: Path, survivors: list[Survivor]) -> list[str]:
    """Open a copy of each node's log; return a sentence for each that cannot be read."""
    notes: list[str] = []
    for directory in directories:
        for node_id, directory_id in directories_in(directory).items():
            source = directory / f"{NODE}{node_id}"
            copy = copies / f"{len(survivors) + len(notes)}"
            try:
                log = open_copy(source, copy)
                survivors.append(Survivor(ReplicaKey(node_id, directory_id), log))
            except (LogError, OSError, shutil.Error) as error:
                said = str(error).replace(str(copy), str(source))
                notes.append(f"node {node_id} in {directory} is left out: {said}")
    return notes


def _choose(
    cluster: ClusterFile, number: int, survivors: Sequence[Survivor], notes: list[str]
) -> Choice:
    """Choose the newest copy of a partition that can be read to its end."""
    newest: Survivor | None = None
    where = (0, 0)
    voters = _first_voters(cluster, number)
    found = []
    for survivor in survivors:
        try:
            epoch, end_offset, own_voters = _looked_through(survivor.log, number)
        except LogError as error:
            notes.append(f"{title_of(number)} on node {survivor.key.node_id} is left out: {error}")
            continue
        if not end_offset:
            continue
        found.append(survivor.key)
        if (epoch, end_offset) > where:
            newest, where = survivor, (epoch, end_offset)
            voters = own_voters or _first_voters(cluster, number)
    epoch, end_offset = where
    return Choice(number, newest, end_offset, epoch, voters, voters & {*found})


def _looked_through(log: RocksLog, number: int) -> tuple[int, int, frozenset[ReplicaKey]]:
    """Read a partition to its end; return its last epoch, its end, and the voters that it names.

    Raises :class:`storage.log.LogError`.
    """
    stored = log.stored(number)
    voters = stored.voters
    for _ in log.state(number):
        pass
    for batch in log.batches(number, 0):
        if batch.end_offset > stored.voters_offset:
            voters = voters_in(batch) or voters
    return stored.last_epoch, stored.end_offset, frozenset(voters)


def _first_voters(cluster: ClusterFile, number: int) -> frozenset[ReplicaKey]:
    kind = kind_of(number)
    count = min(cluster.replicas, cluster.partitions)
    nodes: Sequence[int] = range(count)
    if kind is not CATALOG:
        index = kind.index(number)
        nodes = [(index + more) % cluster.partitions for more in range(count)]
        if cluster.replica_nodes:
            nodes = cluster.replica_nodes[index]
    return frozenset(ReplicaKey(node_id, cluster.directories[node_id]) for node_id in nodes)


def _written(draft: Path, choice: Choice) -> PartitionFile:
    if choice.source is None:
        return write_partition(draft, choice.partition, 0, 0, ())
    log, number = choice.source.log, choice.partition
    offset, epoch, slices = state_before(log, number, choice.end_offset)
    return write_partition(draft, number, offset, epoch, chain.from_iterable(slices))
