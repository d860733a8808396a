"""Makes a backup of a running cluster from the leaders of its partitions.

Each partition is copied as of one offset; everything that was acknowledged when the backup began is
before it. All copies begin within moments of each other: first the groups', then the share state
and the catalogue. So a backup has the share state and the topics that its groups name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from actors.backup.files import new_backup, verify, write_manifest, write_partition
from actors.backup.manifest import Manifest, numbers_of
from actors.backup.steps import unheard
from actors.errors import FailureError
from actors.waiting import poll
from failover.partition_kinds import CATALOG, title_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from actors.backup.manifest import PartitionFile
    from actors.coordinator.state_copies import CopySlice, CopyStart
    from storage.batch import RawRecord

LEADER_S: Final = 30.0
"""How long to wait for a partition's leader."""

ATTEMPTS: Final = 3
"""How often a partition is copied anew, after its leadership moved in between."""


class PartitionLeaders(Protocol):
    """The running cluster; its methods raise FailureError if a node does not answer."""

    cluster_id: str
    partitions: int
    replicas: int

    def find(self) -> Mapping[int, int]:
        """Return the leader of each partition that has one."""

    def begin(self, node_id: int, partition: int) -> CopyStart:
        """Begin a copy at a partition's leader."""

    def read(self, node_id: int, partition: int, copy_id: int) -> CopySlice:
        """Read on in a copy."""


class _Moved(Exception):  # noqa: N818 - it leads to another attempt
    """A leader cannot go on with a copy."""


class _PartitionCopy:
    """A copy that has begun at a leader."""

    def __init__(self, leaders: PartitionLeaders, partition: int, known: Mapping[int, int]) -> None:
        self._leaders = leaders
        self._partition = partition
        self.node_id, self.start = self._begin(known)

    def _begin(self, known: Mapping[int, int]) -> tuple[int, CopyStart]:
        failure = f"{title_of(self._partition)} has no leader."

        def attempt() -> tuple[int, CopyStart] | None:
            nonlocal failure, known
            try:
                node_id = known.get(self._partition)
                known = {}
                if node_id is None:
                    known = self._leaders.find()
                    return None
                start = self._leaders.begin(node_id, self._partition)
            except FailureError as error:
                failure = str(error)
                return None
            failure = start.failure
            return None if failure else (node_id, start)

        begun = poll(attempt, LEADER_S)
        if begun is None:
            raise FailureError(failure)
        return begun

    def records(self) -> Iterator[RawRecord]:
        """Read the copy to its end. Raises :class:`_Moved`."""
        while True:
            try:
                found = self._leaders.read(self.node_id, self._partition, self.start.copy_id)
            except FailureError as error:
                raise _Moved(str(error)) from error
            if found.failure:
                raise _Moved(found.failure)
            if not found.records:
                return
            yield from found.records


def make_backup(
    leaders: PartitionLeaders, target: Path, step: Callable[[int, int], object] = unheard
) -> Manifest:
    """Write a backup to a new directory, and verify it. Raises CommandError.

    ``step`` is told how many partitions of all are written.
    """
    numbers = numbers_of(leaders.partitions)
    with new_backup(target) as draft:
        known = leaders.find()
        begun = {
            number: _PartitionCopy(leaders, number, known)
            for number in (*numbers[1:], CATALOG.first)  # the catalogue last
        }
        files: list[PartitionFile] = []
        for number in numbers:
            step(len(files), len(numbers))
            files.append(_copied(leaders, draft, number, begun[number]))
        manifest = Manifest(
            cluster_id=leaders.cluster_id,
            partitions=leaders.partitions,
            replicas=leaders.replicas,
            files=tuple(files),
        )
        write_manifest(draft, manifest)
        return verify(draft)


def _copied(
    leaders: PartitionLeaders, draft: Path, partition: int, copy: _PartitionCopy
) -> PartitionFile:
    """Write one partition; begin again if its leader cannot go on."""
    for left in reversed(range(ATTEMPTS)):
        start = copy.start
        try:
            return write_partition(draft, partition, start.offset, start.epoch, copy.records())
        except _Moved as error:
            if not left:
                raise FailureError(str(error)) from error
        copy = _PartitionCopy(leaders, partition, {})
    raise AssertionError("the last attempt returns or raises")
