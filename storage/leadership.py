"""The leader's work: feed the peers, count what they have, keep the lease, change the voters.

The lease: a peer that answers a message votes for no other node for a time, counted from the
arrival of the message, which is after ``sent_ms``. So no other node can have been elected until the
lease has passed since ``sent_ms`` of the newest message that a majority answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.batch import Batch
from storage.control import LEADER_CHANGE_KEY, VOTERS_CHANGE_KEY, leader_change, voters_change
from storage.core import FOREVER_MS
from storage.log import NOBODY, SnapshotGoneError
from storage.messages import TransferLeadership
from storage.progress import NEVER_MS, Progress, ReplicationMode
from storage.quorum import committed_offset, majority
from storage.sending import Sender

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.batch import RawRecord
    from storage.core import Core
    from storage.messages import Appended, Joining, ReplicaKey, SnapshotInstalled

NEAR_OFFSETS = 1_000
"""A peer at most so many records behind is near the leader's end: in sync, fit to be a voter."""

USED_MS = 5_000
"""A leader that has answered no request for this long lets its lease run out between heartbeats."""

TRANSFER_IDLE_MS = 30_000
"""A snapshot for a peer that is silent for this long is dropped: it holds back disk clean-up."""


class Leadership:
    """One replica's time as leader of one epoch."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.epoch_start = core.tail.end_offset
        self.handing_over = NOBODY
        self.has_handed_over = False
        self.is_over = False
        """Whether this leader must step down."""
        self.peers: dict[int, Progress] = {}
        self.to_send = False
        self._sender = Sender(core)
        self._began_ms = core.now
        self._doubted_ms = NEVER_MS
        self._beat_at = self._beaten_ms = core.now
        self._give_up_at = FOREVER_MS
        self._used_until = core.now + USED_MS
        self._told = -1
        """The high watermark sent with the last heartbeats."""
        self._has_strangers = False
        """Whether some peers are not voters, or some voters are not peers."""

        self._voters: list[Progress | None] = []
        self._counts_self = True
        self._returning: set[int] = set()
        for voter in core.voters.current:
            if voter != core.me:
                self._add(voter)
        self._recount()

    def begin(self) -> None:
        """Open the epoch: its LeaderChange record commits everything before it.

        A second call in the same epoch adds nothing new.
        """
        core = self.core
        voters = [voter.node_id for voter in core.voters.current]
        self._control(LEADER_CHANGE_KEY, leader_change(core.me.node_id, voters))

    def append(self, records: Sequence[RawRecord], control: bool = False) -> int:
        """Append one batch of this epoch."""
        core = self.core
        tail = core.tail
        core.append(Batch(tail.end_offset, core.epoch, core.now, tuple(records), control))
        if self.peers:
            self.to_send = True
            self._beat_by(core.now + core.timing.heartbeat_ms)
        return tail.end_offset

    def advance(self) -> None:
        """Advance the high watermark to what a majority has on disk, if that is of this epoch."""
        core = self.core
        if self._voters:
            ends = [0 if voter is None else voter.match for voter in self._voters]
            if self._counts_self:
                ends.append(core.durable)
            offset = committed_offset(ends)
        else:
            offset = core.durable
        if offset <= core.high_watermark or offset <= self.epoch_start:
            return
        settled = core.voters.is_settled
        core.commit(offset)
        core.is_current = True
        if not settled and core.voters.is_settled:
            self.is_over = not core.is_voter
        if self._has_strangers:
            self._review_voters()

    def need_lease(self, now: int) -> None:
        """Keep the lease renewed from now on: there are requests to answer."""
        self._used_until = now + USED_MS
        due = self._beaten_ms + self.core.timing.heartbeat_ms
        if self._beat_at <= due:
            return  # not idle
        if now < due:
            self._beat_by(due)
        else:
            self._beaten_ms = now
            self._beat_by(now + self.core.timing.heartbeat_ms)
            self.tell()

    def doubt(self) -> None:
        """Ignore answers to earlier messages as promises: their time may be long over."""
        core = self.core
        self._doubted_ms = core.now
        self._renew()
        self._beat_at = core.now + 1
        core.wake_at(self._beat_at)

    def tell(self) -> None:
        """Send every peer a heartbeat in this turn."""
        for peer in self.peers.values():
            peer.beat_due = self.to_send = True

    def tick(self, now: int) -> None:
        """Send heartbeats; give up what takes too long."""
        core, timing = self.core, self.core.timing
        if not self.peers:
            return
        if now >= self._beat_at:
            self._beat_at, self._beaten_ms = self._next_beat(now), now
            self._told = core.high_watermark
            for peer in self.peers.values():
                peer.beat_due = True
                if peer.transfer is not None and now - peer.transfer.heard_ms > TRANSFER_IDLE_MS:
                    peer.probe(peer.next_offset)
            self.to_send = True
            if self._has_strangers:
                self._review_voters()
        if now >= self._give_up_at:
            # After TransferLeadership the lease is never renewed in this epoch: the receiver may
            # campaign at any later time.
            self.is_over = self.has_handed_over
            self.handing_over, self._give_up_at = NOBODY, FOREVER_MS
        heard_ms = max(self.lease_from_ms, self._began_ms, self._doubted_ms)
        if not core.is_alone and now - heard_ms >= timing.election_min_ms:
            self.is_over = True

    @property
    def next_deadline(self) -> int:
        """When :meth:`tick` next has work to do."""
        return min(self._beat_at, self._give_up_at) if self.peers else FOREVER_MS

    @property
    def lease_from_ms(self) -> int:
        """When the newest message that a majority has answered was sent."""
        needed = majority(len(self._voters) + self._counts_self) - self._counts_self
        if needed <= 0:
            return FOREVER_MS
        heard = sorted(
            (NEVER_MS if voter is None else voter.acked_ms for voter in self._voters), reverse=True
        )
        return heard[needed - 1]

    @property
    def learners(self) -> tuple[ReplicaKey, ...]:
        """The peers that receive the log but do not vote."""
        voters = self.core.voters.current
        return tuple(peer.key for peer in self.peers.values() if peer.key not in voters)

    @property
    def in_sync(self) -> tuple[int, ...]:
        """The nodes whose log ends near this one's, this node first."""
        peers = (peer.key.node_id for peer in self.peers.values() if self._is_near(peer))
        return (self.core.me.node_id, *peers)

    @property
    def complete(self) -> tuple[int, ...]:
        """The nodes of the voters that were heard recently and have all committed records on disk.

        Empty until a record of this epoch is committed: before that the leader itself does not know
        how far the log is committed.
        """
        core = self.core
        committed = core.high_watermark
        if committed <= self.epoch_start:
            return ()
        found = [
            peer.key.node_id
            for peer in self.peers.values()
            if peer.key in core.voters.current and peer.match >= committed and self._is_heard(peer)
        ]
        if core.is_voter and core.durable >= committed:
            found.append(core.me.node_id)
        return tuple(sorted(found))

    @property
    def peers_with_space(self) -> tuple[int, ...]:
        """The voters that have acknowledged records that are not on this leader's own disk.

        Empty when they are too few to elect one of them.
        """
        core = self.core
        voters = core.voters.current
        found = [peer for peer in self.peers.values() if peer.match > core.durable]
        peers_with_space = tuple(peer.key.node_id for peer in found if peer.key in voters)
        return peers_with_space if len(peers_with_space) >= majority(len(voters)) else ()

    @property
    def needed_from(self) -> int | None:
        """The first offset of the log that a peer still needs, None without such a peer."""
        offsets = [
            peer.match if peer.transfer is None else peer.transfer.snapshot.offset
            for peer in self.peers.values()
            if peer.mode is not ReplicationMode.PROBE and self._is_heard(peer)
        ]
        return min(offsets, default=None)

    def on_appended(self, message: Appended) -> None:
        """Handle a peer's answer to batches or a heartbeat."""
        peer = self._peer(message.replica)
        if peer is None:
            return
        core = self.core
        earlier_ms, sent_ms = peer.acked_ms, message.sent_ms
        if sent_ms > earlier_ms:
            peer.acked_ms = sent_ms
            self._renew()
        if message.accepted:
            if peer.accepted(message.end_offset) and peer.match > core.high_watermark:
                self.advance()
        elif peer.mode is not ReplicationMode.SNAPSHOT and not (
            message.end_offset < peer.match and sent_ms <= earlier_ms  # an old answer
        ):
            # A log that ends before what it once acknowledged: only a faulty disk can cause that.
            peer.match = min(peer.match, message.end_offset)
            agreement = self._agreement(message.end_offset, message.last_epoch)
            if agreement < peer.next_offset:  # otherwise it answers an older message
                peer.probe(agreement)
        if peer.next_offset < core.tail.end_offset:
            self.to_send = True
        if self.handing_over == peer.key.node_id:
            self._hand_over()

    def on_installed(self, message: SnapshotInstalled) -> None:
        """Handle a peer's answer to a slice of a snapshot."""
        peer = self._peer(message.replica)
        if peer is None:
            return
        if message.sent_ms > peer.acked_ms:
            peer.acked_ms = message.sent_ms
            self._renew()
        transfer = peer.transfer
        if transfer is None or transfer.snapshot.offset != message.offset:
            return
        self.to_send = True
        if message.next_position == 0:  # the peer started again and has nothing
            peer.probe(peer.next_offset)
        elif message.next_position > transfer.position and transfer.is_last:
            if peer.accepted(message.offset):
                self.advance()
        else:
            try:
                transfer.acknowledged(message.next_position, self.core.now)
            except SnapshotGoneError:
                peer.probe(peer.next_offset)  # another snapshot is taken

    def on_joining(self, message: Joining) -> None:
        """Add a replica that has no log, or that lost its leader, as a peer."""
        known = self.peers.get(message.replica.node_id)
        if known is None or known.key != message.replica:
            self._adopt(message.replica)

    def set_link(self, node_id: int, is_up: bool) -> None:
        """Note whether messages reach a node."""
        peer = self.peers.get(node_id)
        if peer is None:
            return
        peer.is_up = is_up
        self._beat_by(self.core.now + self.core.timing.heartbeat_ms)
        if is_up:
            peer.awaits_answer, peer.beat_due, self.to_send = False, True, True
            if peer.transfer is not None:
                peer.transfer.sent_ms = NEVER_MS
        elif self.handing_over == node_id and not self.has_handed_over:
            self.handing_over, self._give_up_at = NOBODY, FOREVER_MS

    def transfer_to(self, node_id: int) -> bool:
        """Begin to hand over to a voter; return whether that is possible."""
        peer = self.peers.get(node_id)
        if peer is None or not peer.is_up or peer.key not in self.core.voters.current:
            return False
        if self.handing_over == NOBODY:
            self._beat_by(self.core.now + self.core.timing.heartbeat_ms)
            self.handing_over = node_id
            self._give_up_at = self.core.now + self.core.timing.election_min_ms
            self._hand_over()
        return True

    def change_voters(self, voters: tuple[ReplicaKey, ...]) -> bool:
        """Append a change of one voter; return whether that is possible now.

        It is when the previous change and a record of this epoch are committed. Otherwise two
        changes could be under way at once, and two majorities could have no common replica.
        """
        core = self.core
        differ = set(voters) ^ set(core.voters.current)
        if not core.voters.is_settled or core.high_watermark <= self.epoch_start:
            return False
        assert len(differ) == 1, "voters change one at a time"
        assert voters, "somebody must count"
        self._control(VOTERS_CHANGE_KEY, voters_change(voters))
        for node_id, peer in list(self.peers.items()):
            if peer.key in differ and peer.key not in voters:
                del self.peers[node_id]
        for voter in differ & set(voters):
            if voter != core.me and voter.node_id not in self.peers:
                self._add(voter)
        self._recount()
        return True

    def flush(self) -> None:
        """Add to the outgoing messages what the peers can take."""
        self.to_send = False
        for peer in self.peers.values():
            self._sender.feed(peer)

    def _next_beat(self, now: int) -> int:
        """Return when heartbeats are due next; idle leaders on one node share these times."""
        heartbeat_ms, rest_ms = self.core.timing.heartbeat_ms, self.core.timing.rest_ms
        if rest_ms == heartbeat_ms or not self._rests(now):
            return now + heartbeat_ms
        return max(now + rest_ms - now % rest_ms, now + heartbeat_ms)

    def _rests(self, now: int) -> bool:
        """Whether no request needs the lease, and every peer has all records and knows it."""
        end_offset = self.core.tail.end_offset
        return (
            now >= self._used_until
            and self._told == self.core.high_watermark == end_offset
            and self.handing_over == NOBODY
            and not self._has_strangers
            and all(
                peer.is_up and peer.mode is ReplicationMode.STREAM and peer.match == end_offset
                for peer in self.peers.values()
            )
        )

    def _beat_by(self, at: int) -> None:
        if self._beat_at > at:
            self._beat_at = at
            self.core.wake_at(at)

    def _hand_over(self) -> None:
        """Tell the receiver to campaign, once all records are sent to it and few are missing.

        The lease ends here, before the message is sent: no request is answered from now on.
        """
        core = self.core
        peer = self.peers[self.handing_over]
        if (
            self.has_handed_over
            or peer.match < core.high_watermark
            or peer.mode is not ReplicationMode.STREAM
        ):
            return
        self._sender.feed(peer)
        if peer.next_offset == core.tail.end_offset and core.high_watermark > self.epoch_start:
            self.has_handed_over = True
            core.lease_until_ms = 0
            core.send(peer.key.node_id, TransferLeadership(core.partition, core.epoch, core.me))

    def _control(self, key: bytes, value: bytes) -> None:
        self.append([(key, value)], control=True)

    def _peer(self, key: ReplicaKey) -> Progress | None:
        """Return the peer that answers; add one that came back with another disk."""
        peer = self.peers.get(key.node_id)
        if peer is not None and peer.key is not key and peer.key != key:
            self._adopt(key)
            return None
        if peer is not None and not peer.is_up:  # it answers, whatever was reported of its link
            self.set_link(key.node_id, True)
        return peer

    def _adopt(self, key: ReplicaKey) -> None:
        self._add(key)
        self.core.tail.keeps = True
        self._recount()

    def _add(self, key: ReplicaKey) -> None:
        core = self.core
        is_up = core.links.get(key.node_id, True)
        self.peers[key.node_id] = Progress(key, core.tail.end_offset, is_up)
        self.to_send = True
        core.wake_at(self._beat_at)

    def _recount(self) -> None:
        """Recompute the voting peers, after the voters or the peers changed."""
        core = self.core
        self._counts_self = core.is_voter
        self._voters = []
        for voter in core.voters.current:
            if voter != core.me:
                peer = self.peers.get(voter.node_id)
                self._voters.append(peer if peer is not None and peer.key == voter else None)
        self._has_strangers = len(self.peers) != len(self._voters) or None in self._voters
        self._renew()

    def _renew(self) -> None:
        if not self.has_handed_over:
            from_ms = self.lease_from_ms
            if from_ms <= self._doubted_ms:
                from_ms = NEVER_MS
            until_ms = from_ms if from_ms == FOREVER_MS else from_ms + self.core.timing.lease_ms
            self.core.lease_until_ms = max(until_ms, 0)

    def _agreement(self, end_offset: int, last_epoch: int) -> int:
        """Return the next offset to try: in the peer's log, in an epoch no newer than its last."""
        known = self.core.tail.end_of_epoch(last_epoch)
        return end_offset if known is None else min(end_offset, known[1])

    def _is_heard(self, peer: Progress) -> bool:
        return peer.is_up and self.core.now - peer.acked_ms < self.core.timing.election_min_ms

    def _is_near(self, peer: Progress) -> bool:
        behind = self.core.tail.end_offset - peer.match
        return (
            peer.mode is ReplicationMode.STREAM and behind <= NEAR_OFFSETS and self._is_heard(peer)
        )

    def _review_voters(self) -> None:
        """Make learners that have caught up voters; first remove the lost voter of that node."""
        core = self.core
        voters = core.voters.current
        for peer in self.peers.values():
            key = peer.key
            if key in voters or not self._is_near(peer) or peer.match < self.epoch_start:
                continue
            lost = [voter for voter in voters if voter.node_id == key.node_id]
            if lost:
                if self.change_voters(tuple(voter for voter in voters if voter != lost[0])):
                    self._returning.add(key.node_id)
                return
            if key.node_id in self._returning or key.node_id in core.setting.wanted:
                if self.change_voters((*voters, key)):
                    self._returning.discard(key.node_id)
                return
