"""One replica of one partition's log, as a state machine: Raft, in Kafka's words.

Messages, time and records go in; :meth:`Replica.ready` says what to write, what to send and what is
newly committed. The rules kept here:

* one vote per epoch, written before it counts (:class:`storage.log.SaveVote` is in the writes, the
  vote is counted in :meth:`Replica.persisted`);
* a leader's first record in its epoch is a LeaderChange control record, and nothing is committed
  before it: older epochs' records are committed by it, never counted by themselves;
* a record is committed when a majority of the voters has it on disk, the leader's own copy included
  only once :meth:`Replica.persisted` said so.

There is one voter for now, so the majority is the replica itself.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from kio.schema.leader_change_message.v0 import LeaderChangeMessage
from kio.schema.leader_change_message.v0.data import Voter
from kio.serial import entity_writer

from storage.batch import Batch
from storage.log import AppendBatch, SaveVote, Write
from storage.quorum import committed_offset, majority

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

    from storage.batch import RawRecord
    from storage.log import Log, Stored
    from storage.messages import Message, ReplicaKey
    from storage.timing import Timing

FOREVER_MS = 1 << 62
"""A time that never comes: the end of the lease of a single voter."""

LEADER_CHANGE_KEY = b"\x00\x00\x00\x02"
"""A control record's key: version 0, type 2 (LEADER_CHANGE), as Kafka writes it."""


class Role(StrEnum):
    """What a replica is in its epoch."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a replica stands and what it is given. ``voters`` are used while none are stored.

    Without voters (or not among them) the replica is a learner: it asks the leader for the log.
    ``wanted`` are the nodes that should be voters in the end: the leader adds them when they are
    caught up. The log is only read.
    """

    me: ReplicaKey
    partition: int
    voters: tuple[ReplicaKey, ...]
    timing: Timing
    rng: random.Random
    log: Log
    wanted: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class SnapshotNotice:
    """The leader's snapshot replaces this log: what was built from it is to be forgotten.

    With ``done`` the state on disk is whole again, at ``offset``, and can be loaded; before that
    there is nothing to load and nothing may be written to the state.
    """

    offset: int
    done: bool


@dataclass(slots=True)
class Ready:
    """What has to happen now: write, call ``persisted``, send the messages, then ask again.

    ``messages`` (node id, message) may only leave when the writes are on disk. ``committed`` are
    the batches that have become committed since the last call, in order. ``elected`` is set once,
    when this replica has become the leader of its epoch, and ``resigned`` when it no longer is.
    """

    writes: list[Write] = field(default_factory=list)
    messages: list[tuple[int, Message]] = field(default_factory=list)
    committed: list[Batch] = field(default_factory=list)
    elected: bool = False
    resigned: bool = False
    snapshot: SnapshotNotice | None = None


class Replica:
    """The replication state machine of one partition on one node."""

    def __init__(
        self, setting: Setting, stored: Stored, tail: Iterable[Batch] = (), now: int = 0
    ) -> None:
        """Start from what the log holds; ``tail`` are its batches after the applied offset."""
        me = setting.me
        if setting.voters != (me,):
            raise ValueError("a partition has one replica, its own node, until logs are replicated")
        del now
        node_id, voters, partition = me.node_id, (me.node_id,), setting.partition
        self.voters = setting.voters
        self.learners: tuple[ReplicaKey, ...] = ()
        self.partition = partition
        self.role = Role.FOLLOWER
        self.epoch = max(stored.epoch, stored.last_epoch)
        self.voted_for = stored.voted_for if stored.epoch == self.epoch else -1
        self.high_watermark = stored.high_watermark
        self.end_offset = stored.end_offset
        self.last_epoch = stored.last_epoch
        self._node_id = node_id
        self._voters = tuple(voters)
        self._durable = dict.fromkeys(voters, 0) | {node_id: stored.end_offset}
        self._uncommitted = [b for b in tail if b.end_offset > stored.high_watermark]
        self._epoch_start = stored.end_offset
        self._votes: set[int] = set()
        self._writes: list[Write] = []
        self._handed_out: tuple[int, int] | None = None
        self._committed: list[Batch] = []
        self._elected = False

    @property
    def uncommitted(self) -> Sequence[Batch]:
        """The batches at the end of the log that are not known to be committed, in order."""
        return self._uncommitted

    @property
    def is_ready(self) -> bool:
        """Whether :meth:`ready` has anything to say."""
        return bool(self._writes or self._committed or self._elected)

    @property
    def leader_id(self) -> int:
        """The node that leads this epoch, as far as is known; -1 if it is not."""
        return self._node_id if self.role is Role.LEADER else -1

    @property
    def lease_until_ms(self) -> int:
        """Until when no other replica can lead; 0 when this one does not."""
        return FOREVER_MS if self.role is Role.LEADER else 0

    @property
    def in_sync(self) -> tuple[int, ...]:
        """The nodes whose log ends near the leader's."""
        return (self._node_id,) if self.role is Role.LEADER else ()

    def next_deadline(self) -> int | None:
        """Return when :meth:`tick` has something to do; None if nothing is planned."""
        return None if self.role is Role.LEADER else 0

    def step(self, message: Message, now: int) -> None:
        """Take a peer's message."""

    def peer_up(self, node_id: int, now: int) -> None:
        """Take notice that messages reach a node."""

    def peer_down(self, node_id: int, now: int) -> None:
        """Take notice that the link to a node broke."""

    def transfer_to(self, node_id: int, now: int) -> None:
        """Hand the leadership to a node, once it has the whole log."""

    def campaign(self, now: int) -> None:
        """Stand for election as soon as no leader can have a lease."""
        del now
        if self.role is not Role.LEADER:
            self._campaign()

    def tick(self, now: int) -> None:
        """Let time pass: a replica that has no leader stands for election."""
        if self.role is Role.FOLLOWER:
            self.campaign(now)

    def append(self, records: Sequence[RawRecord], now: int) -> int:
        """Append records as one batch of this leader's epoch; return the log's new end offset."""
        assert self.role is Role.LEADER, "only the leader appends"
        return self._append(Batch(self.end_offset, self.epoch, now, tuple(records)))

    def ready(self) -> Ready:
        """Take out what is to be done; empty when there is nothing."""
        ready = Ready(self._writes, [], self._committed, self._elected)
        if self._writes:
            self._handed_out = (self.end_offset, self.epoch)
        self._writes, self._committed, self._elected = [], [], False
        return ready

    def persisted(self, now: int) -> None:
        """Take notice that all writes taken out so far are on disk."""
        if self._handed_out is None:
            return
        end_offset, epoch = self._handed_out
        self._handed_out = None
        self._durable[self._node_id] = min(end_offset, self.end_offset)
        if self.role is Role.CANDIDATE and epoch == self.epoch:
            self._votes.add(self._node_id)
            if len(self._votes) >= majority(len(self._voters)):
                self._lead(now)
        if self.role is Role.LEADER:
            self._advance()

    def _campaign(self) -> None:
        self.role = Role.CANDIDATE
        self.epoch += 1
        self.voted_for = self._node_id
        self._votes.clear()
        self._writes.append(
            SaveVote(self.partition, self.epoch, self.voted_for, self.high_watermark)
        )

    def _lead(self, now: int) -> None:
        """Begin the epoch: its LeaderChange record is what commits everything before it."""
        self.role = Role.LEADER
        self._elected = True
        self._epoch_start = self.end_offset
        change = (LEADER_CHANGE_KEY, leader_change(self._node_id, self._voters))
        self._append(Batch(self.end_offset, self.epoch, now, (change,), True))

    def _append(self, batch: Batch) -> int:
        self._writes.append(AppendBatch(self.partition, batch))
        self._uncommitted.append(batch)
        self.end_offset = batch.end_offset
        self.last_epoch = batch.leader_epoch
        return self.end_offset

    def _advance(self) -> None:
        """Move the high watermark to what a majority holds, if that is of this epoch."""
        offset = committed_offset(self._durable.values())
        if offset <= max(self.high_watermark, self._epoch_start):
            return
        self.high_watermark = offset
        done = 0
        while done < len(self._uncommitted) and self._uncommitted[done].end_offset <= offset:
            done += 1
        self._committed += self._uncommitted[:done]
        del self._uncommitted[:done]


def leader_change(leader_id: int, voters: Sequence[int]) -> bytes:
    """Return the value of a LeaderChange record, as Kafka writes it."""
    members = tuple(Voter(voter_id=voter) for voter in voters)
    message = LeaderChangeMessage(
        version=0, leader_id=leader_id, voters=members, granting_voters=members
    )
    with io.BytesIO() as buffer:
        _write_leader_change(buffer, message)
        return buffer.getvalue()


_write_leader_change = entity_writer(LeaderChangeMessage)
