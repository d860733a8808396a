"""One replica of one partition's log, as a state machine: Raft, in Kafka's terms.

Messages, time and records go in. :meth:`Replica.ready` returns what to write, what to send and what
is newly committed. The rules, and the modules that keep them:

* one vote per epoch, written before it is sent; pre-votes; promises (:mod:`storage.election`);
* logs that agree in one record agree before it; a follower drops records that differ from the
  leader's, but never a committed record (:mod:`storage.following`);
* a leader's first record in its epoch is a LeaderChange control record, and nothing is committed
  before it: it commits the records of older epochs, which are never counted on their own. A record
  is committed when a majority of the voters has it on disk; the leader's own copy counts only once
  :meth:`Replica.persisted` has been called for it (:mod:`storage.leadership`);
* a leader answers only while its lease lasts, and no other leader is elected before the lease ends
  (:mod:`storage.timing`, :mod:`storage.leadership`, :mod:`storage.election`);
* voters change one at a time (:mod:`storage.voters`, :mod:`storage.leadership`).

A replica's writes are synced in the background. :meth:`Replica.ready` returns units of writes;
:meth:`Replica.persisted` says which units are on disk. Meanwhile the replica goes on. A leader
sends its batches before its own copy is on disk. A vote, or an acknowledgement of records, is sent
only after the writes that it depends on (:meth:`storage.core.Core.promise`,
:mod:`storage.following`).

Time is monotonic, in ms. Read ``now`` for :meth:`Replica.step` after the message arrived: a
follower's promise counts from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from storage.control import LEADER_CHANGE_KEY, leader_change
from storage.core import FOREVER_MS, Core, Ready, ReplicaOptions, Role, SnapshotNotice
from storage.election import Election
from storage.following import Following
from storage.leadership import Leadership
from storage.log import NOBODY, BeginInstall, FinishInstall, TruncateFrom
from storage.messages import (
    Append,
    Appended,
    InstallSnapshot,
    Joining,
    Leading,
    SnapshotInstalled,
    TransferLeadership,
    Vote,
    Voted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from storage.batch import Batch, RawRecord
    from storage.log import Stored
    from storage.messages import Message, ReplicaKey

__all__ = [
    "LEADER_CHANGE_KEY",
    "Ready",
    "Replica",
    "ReplicaOptions",
    "Role",
    "SnapshotNotice",
    "leader_change",
]

REWRITES: Final = (TruncateFrom, BeginInstall, FinishInstall)


class Replica:
    """The replication state machine of one partition on one node."""

    def __init__(
        self, setting: ReplicaOptions, stored: Stored, tail: Iterable[Batch] = (), now: int = 0
    ) -> None:
        """Start from the stored log; ``tail`` are its batches after the applied offset."""
        self.partition = setting.partition
        self._core = Core(setting, stored, tail, now)
        self._following = Following(self._core)
        self._election = Election(self._core)
        self._leadership: Leadership | None = None
        self._join_at = now

    @property
    def role(self) -> Role:
        """The role of this replica in its epoch."""
        return self._core.role

    @property
    def epoch(self) -> int:
        """The newest epoch that this replica knows of."""
        return self._core.epoch

    @property
    def voted_for(self) -> int:
        """The node that this replica voted for in its epoch, -1 if none."""
        return self._core.voted_for

    @property
    def leader_id(self) -> int:
        """The node that leads this epoch, -1 if not known."""
        return self._core.leader_id

    @property
    def high_watermark(self) -> int:
        """Every record before this offset is known to be committed."""
        return self._core.high_watermark

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._core.tail.end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record."""
        return self._core.tail.last_epoch

    @property
    def lease_until_ms(self) -> int:
        """The time until which no other replica can lead; 0 when this one does not lead."""
        return self._core.lease_until_ms if self._core.role is Role.LEADER else 0

    @property
    def voters(self) -> tuple[ReplicaKey, ...]:
        """The voters, according to this log."""
        return self._core.voters.current

    @property
    def learners(self) -> tuple[ReplicaKey, ...]:
        """The replicas that receive the log but do not vote; known to the leader only."""
        return () if self._leadership is None else self._leadership.learners

    @property
    def in_sync(self) -> tuple[int, ...]:
        """The nodes whose log ends near the leader's; known to the leader only."""
        return () if self._leadership is None else self._leadership.in_sync

    @property
    def complete(self) -> tuple[int, ...]:
        """The voters known to have all committed records on disk; known to the leader only."""
        return () if self._leadership is None else self._leadership.complete

    @property
    def peers_with_space(self) -> tuple[int, ...]:
        """The voters that have room for records that do not fit on this disk, if a majority."""
        return () if self._leadership is None else self._leadership.peers_with_space

    @property
    def needed_from(self) -> int | None:
        """The first offset that a peer still needs from this leader's log."""
        return None if self._leadership is None else self._leadership.needed_from

    @property
    def handing_over(self) -> bool:
        """Whether this leader is about to hand over: records appended now may be lost."""
        return self._leadership is not None and self._leadership.handing_over != NOBODY

    @property
    def is_current(self) -> bool:
        """Whether, at some time since its start, it had all records known to be committed."""
        return self._core.is_current

    @property
    def was_named(self) -> bool:
        """Whether the leader before handed over when this replica last stood for election."""
        return self._election.was_named

    @property
    def electable(self) -> bool:
        """Whether this replica may campaign; the owner clears it when it could not serve."""
        return self._election.electable

    @electable.setter
    def electable(self, value: bool) -> None:
        self._election.electable = value
        self._core.wake_at(self._core.now)

    @property
    def uncommitted(self) -> Sequence[Batch]:
        """The batches at the end of the log that are not known to be committed, in order."""
        return self._core.tail.uncommitted

    def appended_since(self, offset: int) -> Sequence[Batch] | None:
        """Return the batches from an offset on; None if they are not all in memory."""
        return self._core.tail.since(offset)

    @property
    def is_ready(self) -> bool:
        """Whether :meth:`ready` has anything to return."""
        out, leadership = self._core.out, self._leadership
        return bool(
            out.writes
            or out.committed
            or (leadership is not None and leadership.to_send)
            or self._following.owes_answer
            or out.messages
            or out.promises
            or out.elected
            or out.resigned
            or out.snapshot
        )

    @property
    def is_rewriting(self) -> bool:
        """Whether pending writes, not yet returned by :meth:`ready`, remove part of the log."""
        return any(isinstance(write, REWRITES) for write in self._core.out.writes)

    def step(self, message: Message, now: int) -> None:
        """Handle a peer's message. ``now`` is read after it arrived."""
        core = self._core
        core.now = max(core.now, now)
        _STEPS[type(message)](self, message)
        self._settle()

    def tick(self, now: int) -> None:
        """Advance the time: leaders send heartbeats, followers that hear none campaign."""
        core = self._core
        if now < core.wake:
            return
        core.now = max(core.now, now)
        core.wake = FOREVER_MS
        if self._leadership is not None:
            self._leadership.tick(core.now)
        self._election.tick(core.now)
        self._settle()
        core.wake_at(self._following.next_deadline)
        if self._leadership is not None:
            core.wake_at(self._leadership.next_deadline)
        else:
            self._join()
        core.wake_at(self._election.next_deadline)

    def next_deadline(self) -> int | None:
        """Return the earliest time at which :meth:`tick` has work to do; None if never."""
        wake = self._core.wake
        return None if wake >= FOREVER_MS else wake

    def peer_up(self, node_id: int, now: int) -> None:
        """Note that messages reach a node."""
        core = self._core
        core.now = max(core.now, now)
        core.links[node_id] = True
        if self._leadership is not None:
            self._leadership.set_link(node_id, True)
        elif not core.is_voter:
            self._join_at = core.now
            core.wake_at(core.now)
        else:
            self._election.ask_again(node_id)

    def peer_down(self, node_id: int, now: int) -> None:
        """Note that the link to a node broke; if it led, campaign as soon as allowed."""
        core = self._core
        core.now = max(core.now, now)
        core.links[node_id] = False
        if self._leadership is not None:
            self._leadership.set_link(node_id, False)
        elif node_id == core.leader_id:
            self._election.stand_at(max(core.now, core.promise_until) + core.stagger())

    def campaign(self, now: int) -> None:
        """Campaign as soon as no leader can have a lease (on a controller's advice)."""
        core = self._core
        core.now = max(core.now, now)
        if core.role is not Role.LEADER:
            self._election.stand_at(max(core.now, core.promise_until))
            self.tick(core.now)

    def transfer_to(self, node_id: int, now: int) -> bool:
        """Begin to hand the leadership to a voter that gets the whole log; return if it began."""
        core = self._core
        core.now = max(core.now, now)
        if self._leadership is None or core.role is not Role.LEADER:
            return False
        begun = self._leadership.transfer_to(node_id)
        core.wake_at(self._leadership.next_deadline)
        return begun

    def need_lease(self, now: int) -> None:
        """Note that there are requests to answer, so that an idle leader renews its lease."""
        if self._leadership is not None:
            self._core.now = max(self._core.now, now)
            self._leadership.need_lease(self._core.now)

    def doubt(self, now: int) -> None:
        """As a leader, give up the lease until a majority answers a message sent after ``now``."""
        core = self._core
        core.now = max(core.now, now)
        if self._leadership is not None and core.role is Role.LEADER:
            self._leadership.doubt()
            core.wake_at(self._leadership.next_deadline)

    def tell(self) -> None:
        """Send the high watermark to every peer now, not with the next heartbeat."""
        if self._leadership is not None:
            self._leadership.tell()

    def ask_for_room(self) -> None:
        """As a stuck leader, ensure there is a record, to see which peers can write it."""
        if self._leadership is not None and self._core.durable == self._core.tail.end_offset:
            self._leadership.begin()

    def append(self, records: Sequence[RawRecord], now: int) -> int:
        """Append records as one batch of this leader's epoch; return the log's new end offset."""
        assert self._leadership is not None, "only the leader appends"
        core = self._core
        core.now = max(core.now, now)
        return self._leadership.append(records)

    def ready(self, now: int | None = None, unit: int = 0) -> Ready:
        """Take out the pending work; empty when there is none.

        Messages are stamped with ``now``. The writes belong to the unit with the given number.
        Numbers never decrease; several calls may add to one unit.
        """
        core = self._core
        if now is not None:
            core.now = max(core.now, now)
        if self._leadership is not None and self._leadership.to_send:
            self._leadership.flush()
        if self._following.owes_answer:
            self._following.flush()
        ready = core.hand_out(unit)
        core.wake_at(self._following.next_deadline)
        return ready

    def persisted(self, now: int, through: int | None = None) -> None:
        """Note that the units up to a number are on disk (all that were taken out, when None)."""
        core = self._core
        if not core.units:
            return
        core.now = max(core.now, now)
        last = core.persisted(core.units[-1].number if through is None else through)
        if last is None:
            return
        if self._leadership is not None:
            if core.durable > core.high_watermark:
                self._leadership.advance()
                self._settle()
        elif core.role is Role.CANDIDATE and last.epoch == core.epoch:
            self._election.own_vote_is_written()
            self._settle()

    @property
    def _is_lost(self) -> bool:
        """Whether no leader feeds this replica; the present leader may not know of it."""
        return self._core.now >= self._lost_at

    @property
    def _lost_at(self) -> int:
        """When this replica begins to ask all nodes for the log if it hears no leader before.

        A learner asks soon. A voter campaigns first. If it is not elected for long, it may be a
        voter only by the end of its own log, which the others do not have.
        """
        core = self._core
        if not core.is_voter:
            return core.contact_ms + core.timing.lease_ms
        return self._election.stands_since + 2 * core.timing.election_max_ms

    def _admit(self, epoch: int) -> bool:
        """Join a newer epoch; return whether ``epoch`` is the current one."""
        core = self._core
        if epoch > core.epoch:
            core.join_epoch(epoch)
            self._election.forget_vote()
            self._settle()  # a leader of the older epoch must not handle this message
        return epoch == core.epoch

    def _from_leader(self, message: Append | InstallSnapshot) -> bool:
        """Note the leader of this epoch, and promise it a time without rivals."""
        core = self._core
        if message.epoch != core.epoch and not self._admit(message.epoch):
            self._following.refuse_old(message)
            return False
        node_id = message.leader.node_id
        if core.leader_id != node_id:
            assert core.leader_id == NOBODY, "one leader per epoch"
            core.leader_id = node_id
        core.role = Role.FOLLOWER
        core.contact_ms = core.now
        core.promise_until = core.now + core.timing.promise_ms
        core.promise_epoch = core.epoch
        self._election.heard_leader()
        return True

    def _on_voted(self, voted: Voted) -> None:
        core = self._core
        if not voted.granted and voted.epoch > core.epoch:
            was_standing = core.role in (Role.PROSPECTIVE, Role.CANDIDATE)
            self._admit(voted.epoch)
            if was_standing:  # it campaigned in an epoch that is over: try again in the next one
                pause = core.rng.randint(0, core.timing.heartbeat_ms)
                self._election.stand_at(core.now + pause)
        else:
            self._election.on_voted(voted)

    def _on_append(self, message: Append) -> None:
        if self._from_leader(message):
            self._following.on_append(message)

    def _on_install(self, message: InstallSnapshot) -> None:
        if self._from_leader(message):
            self._following.on_install(message)

    def _on_appended(self, message: Appended) -> None:
        if self._admit(message.epoch) and self._leadership is not None:
            self._leadership.on_appended(message)

    def _on_installed(self, message: SnapshotInstalled) -> None:
        if self._admit(message.epoch) and self._leadership is not None:
            self._leadership.on_installed(message)

    def _on_vote(self, vote: Vote) -> None:
        self._election.on_vote(vote)

    def _on_transfer(self, message: TransferLeadership) -> None:
        if self._admit(message.epoch) and message.leader.node_id == self._core.leader_id:
            self._election.take_over()

    def _on_joining(self, message: Joining) -> None:
        self._admit(message.epoch)
        if self._leadership is not None and self._core.role is Role.LEADER:
            self._leadership.on_joining(message)

    def _on_leading(self, message: Leading) -> None:
        if self._is_lost and message.node_id != self._core.me.node_id:
            self._following.join({message.node_id})

    def _settle(self) -> None:
        """Begin or end this replica's leadership, as the parts have decided."""
        core, leadership = self._core, self._leadership
        if leadership is not None:
            if leadership.is_over and core.role is Role.LEADER:
                core.step_down()
            if core.role is not Role.LEADER:
                self._leadership = None
                self._election.wait_anew()
        elif self._election.elected:
            self._election.elected = False
            self._election.stands_since = FOREVER_MS
            self._lead()

    def _lead(self) -> None:
        core = self._core
        core.role = Role.LEADER
        core.leader_id = core.me.node_id
        core.out.elected = True
        self._leadership = Leadership(core)
        self._leadership.begin()
        core.wake_at(self._leadership.next_deadline)

    def _join(self) -> None:
        """When no leader feeds this replica, ask every node that may lead for the log."""
        core = self._core
        if self._is_lost and core.now >= self._join_at:
            nodes = {*core.links, *(voter.node_id for voter in core.voters.current)}
            self._following.join(nodes - {core.me.node_id})
            self._join_at = core.now + core.timing.lease_ms
        core.wake_at(max(self._join_at, self._lost_at))


_STEPS: dict[type, Callable[[Replica, Any], None]] = {
    Append: Replica._on_append,
    Appended: Replica._on_appended,
    Vote: Replica._on_vote,
    Voted: Replica._on_voted,
    InstallSnapshot: Replica._on_install,
    SnapshotInstalled: Replica._on_installed,
    TransferLeadership: Replica._on_transfer,
    Joining: Replica._on_joining,
    Leading: Replica._on_leading,
}
