"""What the replicas of one partition say to each other, as values.

Every message names its partition and its sender's epoch: a replica that hears of a newer epoch
joins it, and what an older one says is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from storage.batch import Batch, RawRecord


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """One replica: its node, and the random id of the directory that holds its log.

    A node that comes back with an empty disk has another ``directory_id``: it has lost the votes
    and records that it had promised to keep, so it is another replica (Kafka's KIP-853).
    """

    node_id: int
    directory_id: str


@dataclass(frozen=True, slots=True)
class Vote:
    """Asks for a vote; with ``pre_vote`` only whether one would be given.

    ``epoch`` is the one that the candidate stands in (the next one, in a pre-vote). ``transfer``:
    the leader itself asked for this election and answers nobody any more, so its lease is over.
    """

    partition: int
    epoch: int
    candidate: ReplicaKey
    last_epoch: int
    end_offset: int
    pre_vote: bool
    transfer: bool


@dataclass(frozen=True, slots=True)
class Voted:
    """Answers :class:`Vote`; ``epoch`` is the voter's own when it refuses."""

    partition: int
    epoch: int
    voter: ReplicaKey
    granted: bool
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class Append:
    """The leader's batches after ``previous_offset``; without any, a sign of life.

    ``previous_offset`` is the end offset of the batch before them, and ``previous_epoch`` that
    batch's epoch. ``sent_ms`` is the leader's time, which the answer repeats: the lease counts from
    it.
    """

    partition: int
    epoch: int
    leader: ReplicaKey
    previous_offset: int
    previous_epoch: int
    batches: tuple[Batch, ...]
    high_watermark: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class Appended:
    """Answers :class:`Append`, once everything before ``end_offset`` is on the follower's disk.

    When not ``accepted``, the logs differ at the leader's previous offset: the follower's log ends
    at ``end_offset`` at most, with ``last_epoch`` as the epoch there, and the leader tries again
    from there.
    """

    partition: int
    epoch: int
    replica: ReplicaKey
    accepted: bool
    end_offset: int
    last_epoch: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """One slice of the leader's compacted state at ``offset``, whose epoch is ``last_epoch``.

    ``position`` counts the slices from 0; ``voters`` are those in force there.
    """

    partition: int
    epoch: int
    leader: ReplicaKey
    offset: int
    last_epoch: int
    position: int
    records: tuple[RawRecord, ...]
    is_last: bool
    voters: tuple[ReplicaKey, ...]
    sent_ms: int


@dataclass(frozen=True, slots=True)
class SnapshotInstalled:
    """Answers :class:`InstallSnapshot`: the next slice wanted of the snapshot at ``offset``."""

    partition: int
    epoch: int
    replica: ReplicaKey
    offset: int
    next_position: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class TransferLeadership:
    """The leader hands over: the receiver campaigns at once, its log is complete."""

    partition: int
    epoch: int
    leader: ReplicaKey


@dataclass(frozen=True, slots=True)
class Joining:
    """A replica that is no voter (an empty disk) asks whoever leads to send it the log."""

    partition: int
    epoch: int
    replica: ReplicaKey


@dataclass(frozen=True, slots=True)
class Leading:
    """A node leads a partition in ``epoch``; told to all nodes, also those without a replica."""

    partition: int
    epoch: int
    node_id: int


@dataclass(frozen=True, slots=True)
class ClockShows:
    """What a node's wall clock showed when it sent this, in Unix ms; of no partition or epoch."""

    partition: int
    epoch: int
    node_id: int
    wall_ms: int


Message: TypeAlias = (
    Vote
    | Voted
    | Append
    | Appended
    | InstallSnapshot
    | SnapshotInstalled
    | TransferLeadership
    | Joining
    | Leading
    | ClockShows
)
