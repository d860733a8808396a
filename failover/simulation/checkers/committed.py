"""Everything ever committed in one partition: all checkers compare with it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from failover.partition_kinds import GROUPS, kind_of
from protocol.records import TYPE_BYTES, GroupMetadataKey, decode, encode_key
from storage.control import voters_in

if TYPE_CHECKING:
    from storage.batch import Batch
    from storage.messages import ReplicaKey


CLASSIC_GROUP: Final = encode_key(GroupMetadataKey(group=""))[:TYPE_BYTES]
"""How the keys of classic groups begin."""


class CommittedLog:
    """The single log of a partition's committed batches, by base offset.

    ``voters`` are from its last change of voters, ``epochs`` from its batches. ``deletions``
    counts how often each classic group was deleted: perhaps to be created again in the same batch,
    in which only the last record of a key is written.
    """

    def __init__(self, *, has_groups: bool) -> None:
        self._has_groups = has_groups
        self.batches: dict[int, Batch] = {}
        self.end_offset = 0
        self.voters: tuple[ReplicaKey, ...] | None = None
        self.voters_so_far: list[tuple[ReplicaKey, ...]] = []
        self.epochs: set[int] = set()
        self.deletions: Counter[str] = Counter()
        self._generations: dict[str, int] = {}
        self._committed_in: dict[int, int] = {}

    def add(self, batch: Batch, epoch: int) -> bool:
        """Add a batch that is committed in an epoch; False when it replaces a committed one."""
        known = self.batches.get(batch.base_offset)
        if known is not None:
            return known is batch or known == batch
        if batch.base_offset < self.end_offset:
            return False
        self.batches[batch.base_offset] = batch
        self.end_offset = batch.end_offset
        self.epochs.add(batch.leader_epoch)
        self._committed_in[batch.base_offset] = epoch
        if not batch.control and self._has_groups:
            self._note_deletions(batch)
        elif batch.control and (voters := voters_in(batch)) is not None:
            self.voters = voters
            self.voters_so_far.append(voters)
        return True

    def _note_deletions(self, batch: Batch) -> None:
        for key, value in batch.records:
            if not key.startswith(CLASSIC_GROUP):
                continue
            record: Any = decode(key, value)
            group_id = record.key.group
            generation = -1 if record.value is None else record.value.generation
            if generation < self._generations.get(group_id, -1):
                self.deletions[group_id] += 1
            self._generations[group_id] = generation

    @property
    def last(self) -> Batch | None:
        """The last committed batch."""
        return next(reversed(self.batches.values()), None)

    def last_before(self, epoch: int) -> Batch | None:
        """Return the last batch that was committed in an earlier epoch, whoever wrote it."""
        rows = reversed(self.batches.items())
        return next((batch for offset, batch in rows if self._committed_in[offset] < epoch), None)

    def voters_before(self, offset: int) -> tuple[ReplicaKey, ...] | None:
        """Return the voters of the last committed change before an offset, if there is one."""
        batches = (each for each in reversed(self.batches.values()) if each.end_offset <= offset)
        return next((voters for each in batches if (voters := voters_in(each))), None)


class CommittedLogs(dict[int, CommittedLog]):
    """The committed logs of all partitions; an empty one where nothing is known yet."""

    def __missing__(self, number: int) -> CommittedLog:
        """Begin the log of a partition."""
        log = self[number] = CommittedLog(has_groups=kind_of(number) is GROUPS)
        return log
