"""The messages between the replicas of one partition, as values.

Every message names its partition and its sender's epoch. A replica that receives a newer epoch
joins it; messages of an older epoch are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from storage.batch import Batch, RawRecord


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """One replica: its node, and the random id of the directory that holds its log.

    A node that returns with an empty disk has another ``directory_id``. It has lost the votes and
    records that it had promised to keep, so it is another replica (Kafka's KIP-853).
    """

    node_id: int
    directory_id: str


@dataclass(frozen=True, slots=True)
class Vote:
    """Ask for a vote; with ``pre_vote``, only ask whether it would be given.

    ``epoch`` is the candidate's epoch (the next one, in a pre-vote). ``transfer``: the leader
    itself asked for this election and answers no more requests, so its lease is over.
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
    """The answer to :class:`Vote`; ``epoch`` is the voter's own when it refuses."""

    partition: int
    epoch: int
    voter: ReplicaKey
    granted: bool
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class Append:
    """The leader's batches after ``previous_offset``; without batches, a heartbeat.

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
    """The answer to :class:`Append`: everything before ``end_offset`` is on the follower's disk.

    When not ``accepted``, the logs differ at the leader's previous offset. They agree at
    ``end_offset`` at most, where the follower's epoch is ``last_epoch``; the leader tries again
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

    ``position`` counts the slices from 0; ``voters`` are the voters in force at ``offset``.
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
    """The answer to :class:`InstallSnapshot`: the next slice wanted, at ``offset``."""

    partition: int
    epoch: int
    replica: ReplicaKey
    offset: int
    next_position: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class TransferLeadership:
    """The leader hands over: the receiver campaigns at once, since its log is complete."""

    partition: int
    epoch: int
    leader: ReplicaKey


@dataclass(frozen=True, slots=True)
class Joining:
    """A replica that is not a voter (its disk is empty) asks the leader to send it the log."""

    partition: int
    epoch: int
    replica: ReplicaKey


@dataclass(frozen=True, slots=True)
class Leading:
    """A node leads a partition in ``epoch``; sent to all nodes, also those without a replica."""

    partition: int
    epoch: int
    node_id: int


@dataclass(frozen=True, slots=True)
class ClockShows:
    """A node's wall clock when it sent this, in Unix ms; concerns no partition and no epoch."""

    partition: int
    epoch: int
    node_id: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class SoftStateTold:
    """Soft state of a leader for the other nodes with replicas of its partition; may be lost.

    Nothing depends on it: what ``data`` means is up to the host.
    """

    partition: int
    epoch: int
    node_id: int
    data: bytes


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
    | SoftStateTold
)
