"""State shared by the parts of a replica: its place in the log and in time, and pending work."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from storage.log import NOBODY, AppendBatch, SaveVote, SaveVoters, TruncateFrom, Write
from storage.tail import LogTail
from storage.voters import VoterHistory

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from storage.batch import Batch
    from storage.log import Log, Stored
    from storage.messages import Message, ReplicaKey
    from storage.timing import Timing

FOREVER_MS = 1 << 62
"""A time that never comes: when the lease of a single voter ends."""

STAGGER_DIVISOR = 2
"""Standbys that lost their leader campaign half a heartbeat apart, to avoid split votes."""


class Role(StrEnum):
    """A replica's role in its epoch. PROSPECTIVE asks whether it would be elected (pre-vote)."""

    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOptions:
    """A replica's identity and dependencies. ``voters`` are used while none are stored.

    Without voters, or when not among them, the replica is a learner: it asks the leader for the
    log. ``wanted`` are the nodes that should become voters: the leader adds them once they have
    caught up, and removes no node for not being among them. The log is only read.
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
    """The leader's snapshot replaces this log: discard everything built from the log.

    With ``done`` the state on disk is complete again, at ``offset``, and can be loaded. Before that
    there is nothing to load, and nothing may be written to the state.
    """

    offset: int
    done: bool


@dataclass(slots=True)
class Ready:
    """The work to do now: send the messages, write, and call ``persisted`` once that is synced.

    ``messages`` (node id, message) depend on nothing that is not on disk yet, so they may be sent
    before the writes. ``promises`` do, and stay with the replica until the writes that they depend
    on are synced. ``committed`` are the batches that have become committed since the last call, in
    order. ``elected`` is set once, when this replica has become the leader of its epoch, and
    ``resigned`` when it no longer is. With a ``snapshot`` notice, ``committed`` are batches after
    it, and may already be in the log.
    """

    writes: list[Write] = field(default_factory=list)
    messages: list[tuple[int, Message]] = field(default_factory=list)
    promises: list[tuple[int, Message]] = field(default_factory=list)
    committed: list[Batch] = field(default_factory=list)
    elected: bool = False
    resigned: bool = False
    snapshot: SnapshotNotice | None = None


@dataclass(slots=True)
class UnsyncedWrites:
    """Writes of this replica that were taken out and are not known to be synced.

    Once they are synced, the log is on disk up to ``end_offset``, the epoch is at least ``epoch``,
    and the ``promises`` may be sent.
    """

    number: int
    end_offset: int
    epoch: int
    promises: list[tuple[int, Message]] = field(default_factory=list)


class Core:
    """The state of one replica, and the operations that all its parts share."""

    def __init__(
        self, setting: ReplicaOptions, stored: Stored, tail: Iterable[Batch], now: int
    ) -> None:
        self.setting = setting
        self.partition = setting.partition
        self.me = setting.me
        self.timing = setting.timing
        self.rng = setting.rng
        self.now = now
        self.role = Role.FOLLOWER
        self.epoch = max(stored.epoch, stored.last_epoch)
        self.voted_for = stored.voted_for if stored.epoch == self.epoch else NOBODY
        self.leader_id = NOBODY
        self.high_watermark = min(stored.high_watermark, stored.end_offset)
        if stored.voters:
            self.voters = VoterHistory(stored.voters, stored.voters_offset)
        else:
            self.voters = VoterHistory(setting.voters, 0)
        self.tail = LogTail(stored, keeps=self.voters.current != (self.me,))
        for batch in tail:
            self.tail.append(batch)
            if batch.control:
                self.voters.append(batch)
        assert self.tail.end_offset == stored.end_offset, "the tail is the log's end"
        self.tail.commit(self.high_watermark)
        self.durable = stored.end_offset
        """Before this offset the log on disk equals the log in memory."""

        self.units: deque[UnsyncedWrites] = deque()
        """The writes under way, oldest first."""

        self.out = Ready()
        if self.voters.commit(self.high_watermark):
            self.save_voters()
        self.links: dict[int, bool] = {}
        """Whether a node can be reached, where that was reported (the report may be outdated)."""

        # Promises are not on disk: any promise made before this start is over after the longest
        # time that a promise can last.
        self.promise_until = now if self.is_alone else now + self.timing.promise_ms
        self.promise_epoch = -1
        self.lease_until_ms = 0
        """As leader: the time until which no other replica can have been elected."""

        self.installing = False
        """Whether the log is empty because a snapshot is being installed."""

        self.is_current = False
        """Whether this replica, since its start, once had all records known to be committed."""

        self.contact_ms = now
        self.wake = now

    @property
    def is_alone(self) -> bool:
        """Whether this replica is the only voter."""
        return self.voters.current == (self.me,)

    @property
    def is_voter(self) -> bool:
        """Whether this replica is a voter, according to its own log."""
        return self.me in self.voters.current

    @property
    def bound_until(self) -> int:
        """Until when this replica votes for no one except a candidate that the leader names."""
        return max(self.promise_until, self.lease_until_ms)

    def wake_at(self, at: int) -> None:
        """Ask for a tick at that time."""
        self.wake = min(self.wake, at)

    def send(self, node_id: int, message: Message) -> None:
        """Send a message that holds whatever is on this node's disk."""
        self.out.messages.append((node_id, message))

    def promise(self, node_id: int, message: Message) -> None:
        """Send a message once everything written before it is on disk."""
        self.out.promises.append((node_id, message))

    def hand_out(self, number: int) -> Ready:
        """Take out the pending work; its writes belong to the unit with this number."""
        ready, self.out = self.out, Ready()
        units = self.units
        if ready.writes:
            if not units or units[-1].number != number:
                units.append(UnsyncedWrites(number, 0, 0))
            units[-1].end_offset, units[-1].epoch = self.tail.end_offset, self.epoch
        if ready.promises:
            rests_on = units[-1].promises if units else ready.messages
            rests_on += ready.promises
            ready.promises = []
        return ready

    def persisted(self, through: int) -> UnsyncedWrites | None:
        """Note that units up to this number are on disk; return the last of them, if any."""
        last, units = None, self.units
        while units and units[0].number <= through:
            last = units.popleft()
            self.durable = last.end_offset
            self.out.messages += last.promises
        return last

    def join_epoch(self, epoch: int, voted_for: int = NOBODY) -> None:
        """Enter a newer epoch, with or without a vote in it; the older epoch's state is void."""
        assert epoch > self.epoch, "an epoch never comes back"
        self.step_down()
        self.epoch = epoch
        self.voted_for = voted_for
        self.save_vote()

    def step_down(self) -> None:
        """Become a follower without a known leader."""
        if self.role is Role.LEADER:
            self.lease_until_ms = 0
            self.out.resigned = not self.out.elected
            self.out.elected = False
        self.role = Role.FOLLOWER
        self.leader_id = NOBODY

    def save_vote(self) -> None:
        """Write the epoch and the vote in it."""
        self.out.writes.append(
            SaveVote(self.partition, self.epoch, self.voted_for, self.high_watermark)
        )

    def save_voters(self) -> None:
        """Write the committed voters."""
        voters = self.voters
        self.out.writes.append(SaveVoters(self.partition, voters.committed, voters.offset))

    def append(self, batch: Batch) -> None:
        """Add a batch to the log."""
        self.out.writes.append(AppendBatch(self.partition, batch))
        self.tail.append(batch)
        if batch.control:
            self.voters.append(batch)
            self.tail.keeps = self.tail.keeps or not self.is_alone

    def truncate(self, offset: int) -> None:
        """Drop the end of the log, which differs from the leader's."""
        assert offset >= self.high_watermark, "what is committed is never truncated"
        self.out.writes.append(TruncateFrom(self.partition, offset))
        self.tail.truncate(offset)
        self.voters.truncate(offset)
        self._forget_after(offset)

    def restart_log(self, stored: Stored) -> None:
        """Restart the log at a snapshot's offset (0: no snapshot yet)."""
        self.tail = LogTail(stored, keeps=True)
        self.high_watermark = stored.applied_offset
        self.is_current = False
        self._forget_after(stored.applied_offset)

    def commit(self, offset: int) -> None:
        """Advance the high watermark."""
        self.high_watermark = offset
        self.out.committed += self.tail.commit(offset)
        if not self.voters.is_settled and self.voters.commit(offset):
            self.save_voters()

    def election_timeout(self) -> int:
        """Draw an election timeout, in ms."""
        return self.rng.randint(self.timing.election_min_ms, self.timing.election_max_ms)

    def stagger(self) -> int:
        """Return how many ms this voter waits for those before it, after the leader is lost."""
        order = [voter for voter in self.voters.current if voter.node_id != self.leader_id]
        position = order.index(self.me) if self.me in order else len(order)
        step = max(self.timing.heartbeat_ms // STAGGER_DIVISOR, 1)
        return position * step + (self.rng.randint(0, step // 2) if position else 0)

    def _forget_after(self, offset: int) -> None:
        """Let writes under way no longer cover records from ``offset`` on."""
        self.durable = min(self.durable, offset)
        for unit in self.units:
            unit.end_offset = min(unit.end_offset, offset)
