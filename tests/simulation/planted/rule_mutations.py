"""Planted bugs in single rules of votes, followers, leases and voters: most do harm seldom."""

from collections.abc import Callable, Mapping
from typing import Any

from failover.host import Host
from failover.partitions.partition import Partition
from failover.partitions.replies import Replies
from failover.simulation.patches import Patch
from protocol.groups.classic.group import ClassicGroupRuntime
from protocol.groups.offsets import deleted_topics
from storage.core import Role
from storage.election import Election
from storage.following import Following
from storage.leadership import Leadership
from storage.messages import Append, Appended, InstallSnapshot, Vote
from storage.progress import ReplicationMode
from storage.replica import Replica
from storage.timing import Timing
from storage.voters import VoterHistory
from tests.simulation.planted.mutations import Mutation

# --- followers


def follower_acknowledges_its_whole_log() -> list[Patch]:
    original = Following._match

    def match(self: Following, end_offset: int, sent_ms: int) -> None:
        original(self, max(end_offset, self.core.tail.end_offset), sent_ms)

    return [(Following, "_match", match)]


def follower_believes_the_watermark() -> list[Patch]:
    original = Following.on_append

    def on_append(self: Following, message: Append) -> None:
        original(self, message)
        core = self.core
        offset = min(message.high_watermark, core.tail.end_offset)
        if offset > core.high_watermark and not self._install:
            core.commit(offset)

    return [(Following, "on_append", on_append)]


# --- votes


def vote_remembered_into_the_next_epoch() -> list[Patch]:
    original = Election.on_vote

    def on_vote(self: Election, vote: Vote) -> None:
        known = self._voted_key
        original(self, vote)
        if known is not None and self._voted_key is None:
            self._voted_key = vote.candidate

    return [(Election, "on_vote", on_vote)]


def candidate_votes_for_another() -> list[Patch]:
    original = Election.on_vote

    def on_vote(self: Election, vote: Vote) -> None:
        core = self.core
        is_rival = vote.epoch == core.epoch and not vote.pre_vote
        if is_rival and core.role is Role.CANDIDATE and vote.candidate < core.me:
            core.role = Role.FOLLOWER
            core.voted_for, self._voted_key = vote.candidate.node_id, vote.candidate
            core.save_vote()
            self._answer(vote, granted=True)
        else:
            original(self, vote)

    return [(Election, "on_vote", on_vote)]


# --- voters and leases


def learner_promoted_behind() -> list[Patch]:
    original = Leadership._review_voters

    def review_voters(self: Leadership) -> None:
        paces = {peer: (peer.mode, peer.match) for peer in self.peers.values()}
        for peer in paces:
            peer.mode, peer.match = ReplicationMode.STREAM, max(peer.match, self.epoch_start)
        try:
            original(self)
        finally:
            for peer, (mode, match) in paces.items():
                peer.mode, peer.match = mode, match

    return [(Leadership, "_review_voters", review_voters)]


def snapshot_acknowledged_before_its_sync() -> list[Patch]:
    original = Following._installed

    def installed(self: Following, message: Any, next_position: int) -> None:
        out = self.core.out
        before = len(out.promises)
        original(self, message, next_position)
        out.messages += out.promises[before:]
        del out.promises[before:]

    return [(Following, "_installed", installed)]


def snapshots_bind_nobody() -> list[Patch]:
    original = Replica._from_leader

    def from_leader(self: Replica, message: Any) -> bool:
        before = self._core.promise_until
        taken = original(self, message)
        if isinstance(message, InstallSnapshot):
            self._core.promise_until = before
        return taken

    return [(Replica, "_from_leader", from_leader)]


def refusals_count_as_matches() -> list[Patch]:
    original = Leadership.on_appended

    def on_appended(self: Leadership, message: Appended) -> None:
        peer = self.peers.get(message.replica.node_id)
        original(self, message)
        if peer is not None and not message.accepted and peer.key == message.replica:
            peer.match = max(peer.match, min(message.end_offset, self.core.tail.end_offset))

    return [(Leadership, "on_appended", on_appended)]


def margin_of_the_promise_halved() -> list[Patch]:
    def promise_ms(self: Timing) -> int:
        return self.lease_ms + self.lease_ms // 16 + 2

    return [(Timing, "promise_ms", property(promise_ms))]


def clocks_that_moved_apart_believed() -> list[Patch]:
    return [(Host, "doubt", lambda self, now: None)]


def voters_not_undone() -> list[Patch]:
    return [(VoterHistory, "truncate", lambda self, offset: None)]


def learners_renew_the_lease() -> list[Patch]:
    original: Any = Leadership.__dict__["lease_from_ms"].fget

    def lease_from_ms(self: Leadership) -> int:
        voters, self._voters = self._voters, [*self.peers.values()]
        try:
            return int(original(self))
        finally:
            self._voters = voters

    return [(Leadership, "lease_from_ms", property(lease_from_ms))]


# --- the end of a term


def promoted_without_the_tail() -> list[Patch]:
    original = Partition._promote

    def promote(self: Partition, now: int) -> None:
        self.__dict__["_replay_batch"] = lambda batch: None
        try:
            original(self, now)
        finally:
            del self.__dict__["_replay_batch"]

    return [(Partition, "_promote", promote)]


def waiting_forgotten_after_demotion() -> list[Patch]:
    original = Replies.refuse_all
    return [(Replies, "refuse_all", lambda self, code, out: original(self, code, []))]


def deferred_requests_forgotten() -> list[Patch]:
    return [(Partition, "defer", lambda self, request, groups: None)]


def fenced_members_heard() -> list[Patch]:
    original = ClassicGroupRuntime.member

    def member(self: ClassicGroupRuntime, member_id: str, instance_id: str | None) -> Any:
        return original(self, self.static_members.get(instance_id or "", member_id), instance_id)

    return [(ClassicGroupRuntime, "member", member)]


# --- deleted topics


def deleted_topics_keep_offsets() -> list[Patch]:
    return [(deleted_topics, "remove", lambda ctx, group_id, names: None)]


def deleted_topics_forgotten_by_new_leaders() -> list[Patch]:
    return [(deleted_topics, "elected", lambda ctx, now: None)]


RULE_PLANTED: tuple[tuple[Callable[[], list[Patch]], int, str], ...] = (
    (follower_acknowledges_its_whole_log, 8, "a follower acknowledges what was not compared"),
    (follower_believes_the_watermark, 4, "a follower commits what was not compared"),
    (vote_remembered_into_the_next_epoch, 13, "a refused candidate is taken for the one voted for"),
    (voters_not_undone, 146, "a truncated change of voters stays in force"),
    (learners_renew_the_lease, 0, "an answer of a learner renews the lease"),
    (candidate_votes_for_another, 1, "a candidate votes for another one in its epoch"),
    (learner_promoted_behind, 4, "a replica that lacks records becomes a voter"),
    (snapshot_acknowledged_before_its_sync, 8, "a snapshot is acknowledged before its sync"),
    (snapshots_bind_nobody, 8, "a slice of a snapshot is answered without a promise"),
    (refusals_count_as_matches, 5, "what a follower refuses counts as its own"),
    (margin_of_the_promise_halved, 4, "the promise has too small a margin for clocks"),
    (clocks_that_moved_apart_believed, 6, "a lease goes on when the clocks moved apart"),
    (promoted_without_the_tail, 0, "a new leader has not applied what it may commit"),
    (waiting_forgotten_after_demotion, 7, "who waits is not told of the demotion"),
    (deferred_requests_forgotten, 0, "requests that wait for a lease are forgotten"),
    (fenced_members_heard, 1, "a replaced static member is taken for its successor"),
    (deleted_topics_keep_offsets, 17, "offsets of deleted topics stay"),
    (deleted_topics_forgotten_by_new_leaders, 17, "a new leader keeps offsets of deleted topics"),
)
RULE_MUTATIONS: Mapping[str, Mutation] = {
    function.__name__: Mutation(about, function, seed) for function, seed, about in RULE_PLANTED
}
