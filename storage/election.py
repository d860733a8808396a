"""Elections: which replica may campaign when, and which gets this replica's vote.

* One vote per epoch, written before the answer is sent, and only for a log that is at least as
  complete as this one.
* A candidate asks for votes in two rounds. The first (pre-vote) changes no state anywhere, so a
  replica that is merely cut off does not disturb the others with ever newer epochs.
* A replica that answers a leader's message promises that leader a time without rivals. A vote
  request that arrives earlier is parked until the promise ends. The only exception is a leader that
  hands over: it has ended its lease in its epoch and never renews it, so the election of the next
  epoch, and of no other, need not wait.
* After a start the promises made before it are unknown, so the longest possible one is waited for.

A replica whose log was wiped for a snapshot may vote with its empty log. The records that it once
acknowledged lie before the snapshot's offset or were never committed: a snapshot is only installed
where the log ends before it or differs from it. So every record before that offset is on a majority
without this replica, and any majority that would elect a candidate includes one of those voters,
which refuses. The replica itself does not campaign until the snapshot is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.core import FOREVER_MS, Role
from storage.messages import Vote, Voted
from storage.quorum import majority

if TYPE_CHECKING:
    from storage.core import Core
    from storage.messages import ReplicaKey


class Election:
    """One replica's part in elections, as voter and as candidate."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.electable = True
        self.elected = False
        """Whether a majority has voted for this replica in its epoch."""
        self.campaign_at = FOREVER_MS
        self.was_named = False
        """Whether the leader before named this replica when it last stood: it handed over."""
        self.stands_since = FOREVER_MS
        """When this replica first campaigned since it last led or heard a leader."""
        self._granted: set[ReplicaKey] = set()
        self._refused: set[ReplicaKey] = set()
        self._voted_key: ReplicaKey | None = None  # of this epoch; None also after a restart
        self._delayed_votes: dict[ReplicaKey, Vote] = {}
        self._timeout = core.election_timeout()
        self._waits_from = core.now
        if core.is_voter:
            self.stand_at(core.promise_until + core.stagger())

    @property
    def next_deadline(self) -> int:
        """When :meth:`tick` next has work to do."""
        at = FOREVER_MS
        if self._may_stand and self.core.role is not Role.LEADER:
            at = min(self.campaign_at, self._deadline)
        if self._delayed_votes:
            at = min(at, self.core.bound_until)
        return at

    @property
    def _may_stand(self) -> bool:
        return self.electable and self.core.is_voter and not self.core.installing

    @property
    def _deadline(self) -> int:
        return max(self._waits_from, self.core.contact_ms) + self._timeout

    def tick(self, now: int) -> None:
        """Answer the votes that are due; campaign when no leader was heard for too long."""
        core = self.core
        if self._delayed_votes and now >= core.bound_until:
            parked, self._delayed_votes = self._delayed_votes, {}
            for vote in parked.values():
                self.on_vote(vote)
        if (
            core.role is not Role.LEADER
            and self._may_stand
            and now >= min(self.campaign_at, self._deadline)
        ):
            if core.is_alone:
                self.stand()
            elif now >= core.promise_until:
                self._ask_first()
            else:
                self.stand_at(core.promise_until)

    def stand_at(self, at: int) -> None:
        """Campaign at the given time, unless a leader is heard before."""
        self.campaign_at = at
        self.core.wake_at(at)

    def heard_leader(self) -> None:
        """Cancel a planned campaign and parked pre-votes: the leader is alive."""
        self.campaign_at = self.stands_since = FOREVER_MS
        if self._delayed_votes:
            self._delayed_votes = {
                key: vote for key, vote in self._delayed_votes.items() if not vote.pre_vote
            }

    def wait_anew(self) -> None:
        """Start a new election timeout."""
        self.campaign_at = FOREVER_MS
        self._waits_from = self.core.now
        self._timeout = self.core.election_timeout()
        self.core.wake_at(self._deadline)

    def stand(self, transfer: bool = False) -> None:
        """Vote for this replica in a new epoch, and ask the others for their votes."""
        core = self.core
        core.join_epoch(core.epoch + 1, core.me.node_id)
        core.role = Role.CANDIDATE
        self.was_named = transfer
        self._begin_round(core.me)
        self._ask(core.epoch, pre_vote=False, transfer=transfer)

    def take_over(self) -> None:
        """Campaign at once: the leader of this epoch hands over and answers no more requests."""
        if self._may_stand and self.core.role is Role.FOLLOWER:
            self.stand(transfer=True)

    def own_vote_is_written(self) -> None:
        """Count this replica's own vote: it is on disk now."""
        if self.core.role is Role.CANDIDATE and self._voted_key == self.core.me:
            self._grant(self.core.me)

    def on_vote(self, vote: Vote) -> None:
        """Answer a vote request, or park it until the promise to the leader ends."""
        core = self.core
        if vote.epoch < core.epoch or (vote.pre_vote and vote.epoch == core.epoch):
            self._answer(vote, granted=False)
        elif vote.epoch == core.epoch:
            self._answer(vote, granted=self._voted_key == vote.candidate)
        elif self._is_bound(vote):
            self._delayed_votes[vote.candidate] = vote
            core.wake_at(core.bound_until)
        elif vote.pre_vote:
            self._answer(vote, granted=self._is_complete(vote))
        else:
            granted = self._is_complete(vote)
            core.join_epoch(vote.epoch, vote.candidate.node_id if granted else -1)
            self._voted_key = vote.candidate if granted else None
            if granted:  # who refuses may itself have the log that must lead: it goes on waiting
                self.wait_anew()
            self._answer(vote, granted)

    def on_voted(self, voted: Voted) -> None:
        """Count an answer to the round under way."""
        core = self.core
        if voted.pre_vote:
            counts = core.role is Role.PROSPECTIVE and (
                not voted.granted or voted.epoch == core.epoch + 1
            )
        else:
            counts = core.role is Role.CANDIDATE and voted.epoch == core.epoch
        if not counts:
            return
        if voted.granted:
            self._grant(voted.voter)
        elif voted.voter in core.voters.current:
            self._refused.add(voted.voter)
            voters = core.voters.current
            if len(voters) - len(self._refused) < majority(len(voters)):
                core.role = Role.FOLLOWER
                low, high = core.timing.heartbeat_ms, core.timing.lease_ms
                self.wait_anew()
                if voted.pre_vote is False:  # votes were split: try again soon
                    self.stand_at(core.now + core.rng.randint(low, high))

    def ask_again(self, node_id: int) -> None:
        """Repeat the vote request to a node that can be reached again."""
        core = self.core
        if core.role in (Role.PROSPECTIVE, Role.CANDIDATE):
            pre_vote = core.role is Role.PROSPECTIVE
            send = core.send if pre_vote else core.promise
            send(node_id, self._question(core.epoch + pre_vote, pre_vote, False))

    def forget_vote(self) -> None:
        """Note that another epoch began without a vote of this replica."""
        self._voted_key = None

    def _ask_first(self) -> None:
        """Begin the pre-vote: ask whether a majority would vote for this replica."""
        core = self.core
        core.role = Role.PROSPECTIVE
        self.stands_since = min(self.stands_since, core.now)
        self._begin_round(None)
        self._ask(core.epoch + 1, pre_vote=True, transfer=False)
        self._grant(core.me)

    def _begin_round(self, voted_key: ReplicaKey | None) -> None:
        self._granted, self._refused = set(), set()
        if voted_key is not None:
            self._voted_key = voted_key
        self.wait_anew()

    def _ask(self, epoch: int, pre_vote: bool, transfer: bool) -> None:
        core = self.core
        question = self._question(epoch, pre_vote, transfer)
        send = core.send if pre_vote else core.promise  # own vote on disk before asking others
        for voter in core.voters.current:
            if voter != core.me:
                send(voter.node_id, question)

    def _question(self, epoch: int, pre_vote: bool, transfer: bool) -> Vote:
        core, tail = self.core, self.core.tail
        return Vote(
            core.partition, epoch, core.me, tail.last_epoch, tail.end_offset, pre_vote, transfer
        )

    def _grant(self, voter: ReplicaKey) -> None:
        core = self.core
        voters = core.voters.current
        if voter not in voters:
            return
        self._granted.add(voter)
        if len(self._granted) < majority(len(voters)):
            return
        if core.role is Role.PROSPECTIVE:
            self.stand()
        else:
            self.elected = True

    def _is_complete(self, vote: Vote) -> bool:
        """Whether the candidate's log is at least as complete as this one."""
        tail = self.core.tail
        return (vote.last_epoch, vote.end_offset) >= (tail.last_epoch, tail.end_offset)

    def _is_bound(self, vote: Vote) -> bool:
        core = self.core
        if core.now >= core.bound_until:
            return False
        return not (vote.transfer and vote.epoch == core.promise_epoch + 1)

    def _answer(self, vote: Vote, granted: bool) -> None:
        core = self.core
        epoch = vote.epoch if granted else core.epoch
        send = core.promise if granted and not vote.pre_vote else core.send
        send(vote.candidate.node_id, Voted(core.partition, epoch, core.me, granted, vote.pre_vote))
