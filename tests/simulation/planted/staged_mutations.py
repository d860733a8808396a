"""Planted bugs that seeds seldom or never meet, each with a test that fails when it is planted.

Each breaks a promise of ``docs/replication.md``. Its test is one that the project has anyway, with
a few replicas, hosts or simulated processes and what happens to them, step by step.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from actors.peers import handshake
from failover.common_time import CommonTime
from failover.control import healing
from failover.leadership_drain import DRAIN_INTERVAL_MS, LeadershipDrain
from failover.partitions.partition import Partition
from failover.partitions.replies import Replies
from failover.simulation.nodes import disks
from failover.simulation.patches import Patch
from protocol.groups.migration import downgrade
from storage.core import Core, Role
from storage.election import Election
from storage.following import Following
from storage.leadership import Leadership
from storage.messages import TransferLeadership, Vote, Voted
from storage.replica import Replica
from storage.timing import Timing
from tests.actors.peers import test_peers as peers
from tests.failover import test_common_time as clocks
from tests.failover import test_failover as hosts
from tests.failover.control import test_healing
from tests.simulation import test_downgrades as downgrades
from tests.simulation import test_stale_machine as stale_machine
from tests.storage import test_replica_rules as rules
from tests.storage import test_rest as rest


@dataclass(frozen=True)
class StagedMutation:
    """One planted bug, and a test that passes without it and fails with it."""

    about: str
    patches: Callable[[], list[Patch]]
    test: Callable[[], None]


def in_a_cluster(test: Callable[..., None]) -> Callable[[], None]:
    """Give a test of :mod:`tests.failover.test_failover` its three hosts."""
    return lambda: test(hosts.a_cluster())


# --- elections


def pre_vote_skipped() -> list[Patch]:
    return [(Election, "_ask_first", lambda self: self.stand())]


def pre_vote_taken_for_a_vote() -> list[Patch]:
    original = Election.on_vote

    def on_vote(self: Election, vote: Vote) -> None:
        original(self, replace(vote, pre_vote=False))

    return [(Election, "on_vote", on_vote)]


def longer_log_of_an_older_epoch_elected() -> list[Patch]:
    def is_complete(self: Election, vote: Vote) -> bool:
        return vote.end_offset >= self.core.tail.end_offset

    return [(Election, "_is_complete", is_complete)]


def shorter_log_of_the_same_epoch_elected() -> list[Patch]:
    def is_complete(self: Election, vote: Vote) -> bool:
        return vote.last_epoch >= self.core.tail.last_epoch

    return [(Election, "_is_complete", is_complete)]


def vote_kept_for_the_epoch_of_a_leader() -> list[Patch]:
    return [(Election, "forget_vote", lambda self: None)]


def late_votes_count() -> list[Patch]:
    original = Election.on_voted

    def on_voted(self: Election, voted: Voted) -> None:
        if voted.granted and not voted.pre_vote and self.core.role is Role.CANDIDATE:
            voted = replace(voted, epoch=self.core.epoch)
        original(self, voted)

    return [(Election, "on_voted", on_voted)]


def newer_epoch_ignored_by_a_leader() -> list[Patch]:
    original = Replica._admit

    def admit(self: Replica, epoch: int) -> bool:
        return (self.role is not Role.LEADER or epoch <= self.epoch) and original(self, epoch)

    return [(Replica, "_admit", admit)]


def older_epochs_heard() -> list[Patch]:
    original = Replica._admit
    return [(Replica, "_admit", lambda self, epoch: original(self, epoch) or True)]


def epoch_begun_without_a_record() -> list[Patch]:
    return [(Leadership, "begin", lambda self: None)]


def campaign_stands_at_once() -> list[Patch]:
    def campaign(self: Replica, now: int) -> None:
        self._core.now = max(self._core.now, now)
        if self._core.role is not Role.LEADER:
            self._election.stand()

    return [(Replica, "campaign", campaign)]


def campaign_without_regard_to_the_promise() -> list[Patch]:
    original = Replica.campaign

    def campaign(self: Replica, now: int) -> None:
        self._core.promise_until = now
        original(self, now)

    return [(Replica, "campaign", campaign)]


# --- voters


def voters_change_before_the_own_record() -> list[Patch]:
    original = Leadership.change_voters

    def change_voters(self: Leadership, voters: Any) -> bool:
        start, self.epoch_start = self.epoch_start, -1
        changed = original(self, voters)
        self.epoch_start = start
        return changed

    return [(Leadership, "change_voters", change_voters)]


# --- syncs


def batches_wait_for_the_own_sync() -> list[Patch]:
    original = Core.send

    def send(self: Core, node_id: int, message: Any) -> None:
        (self.promise if getattr(message, "batches", ()) else partial(original, self))(
            node_id, message
        )

    return [(Core, "send", send)]


def truncation_forgotten_by_syncs() -> list[Patch]:
    def forget_after(self: Core, offset: int) -> None:
        self.durable = min(self.durable, offset)

    return [(Core, "_forget_after", forget_after)]


def truncated_records_still_on_disk() -> list[Patch]:
    def forget_after(self: Core, offset: int) -> None:
        for unit in self.units:
            unit.end_offset = min(unit.end_offset, offset)

    return [(Core, "_forget_after", forget_after)]


# --- leases and transfer of leadership


def handed_over_before_all_is_sent() -> list[Patch]:
    def hand_over(self: Leadership) -> None:
        core, peer = self.core, self.peers[self.handing_over]
        if not self.has_handed_over:
            self.has_handed_over = True
            core.lease_until_ms = 0
            core.send(peer.key.node_id, TransferLeadership(core.partition, core.epoch, core.me))

    return [(Leadership, "_hand_over", hand_over)]


def lease_renewed_after_the_transfer() -> list[Patch]:
    original = Leadership._renew

    def renew(self: Leadership) -> None:
        handed_over, self.has_handed_over = self.has_handed_over, False
        original(self)
        self.has_handed_over = handed_over

    return [(Leadership, "_renew", renew)]


def leadership_kept_after_the_transfer() -> list[Patch]:
    original = Leadership.tick

    def tick(self: Leadership, now: int) -> None:
        handed_over, self.has_handed_over = self.has_handed_over, False
        original(self, now)
        self.has_handed_over = handed_over

    return [(Leadership, "tick", tick)]


def transfer_frees_from_every_promise() -> list[Patch]:
    def is_bound(self: Election, vote: Vote) -> bool:
        return self.core.now < self.core.bound_until and not vote.transfer

    return [(Election, "_is_bound", is_bound)]


def requests_do_not_wake_the_lease() -> list[Patch]:
    return [(Leadership, "need_lease", lambda self, now: None)]


def requests_wake_the_lease_for_one_round() -> list[Patch]:
    original = Leadership.need_lease

    def need_lease(self: Leadership, now: int) -> None:
        used_until = self._used_until
        original(self, now)
        self._used_until = used_until

    return [(Leadership, "need_lease", need_lease)]


def leader_rests_while_a_voter_is_away() -> list[Patch]:
    return [(Leadership, "_rests", lambda self, now: now >= self._used_until)]


def leader_rests_too_long() -> list[Patch]:
    return [(Timing, "rest_ms", property(lambda self: 2 * self.election_max_ms))]


def unleased_leader_stays() -> list[Patch]:
    def transfer_unleased(self: LeadershipDrain, partition: Partition, now: int) -> None:
        partition.replies.silent_at_ms = now + DRAIN_INTERVAL_MS

    return [(LeadershipDrain, "transfer_unleased", transfer_unleased)]


def patience_without_a_lease_begins_anew() -> list[Patch]:
    original = Replies.use_lease

    def use_lease(self: Replies, now: int, *arguments: Any) -> None:
        self.unleased_from_ms = self.silent_at_ms = None
        original(self, now, *arguments)

    return [(Replies, "use_lease", use_lease)]


# --- clocks


def expiry_with_any_clock() -> list[Patch]:
    return [(CommonTime, "is_settled", lambda self, now: True)]


def own_clock_believed() -> list[Patch]:
    original = CommonTime._decide

    def decide(self: CommonTime, now: int, *, is_first: bool) -> None:
        original(self, now, is_first=is_first)
        if self._own is not None:
            self.offset_ms, self._is_agreed = self._own, True

    return [(CommonTime, "_decide", decide)]


# --- directories and damage


def copy_opened() -> list[Patch]:
    return [(disks, "descends", lambda claim, seen: True)]


def learners_taken_for_voters() -> list[Patch]:
    original = healing.is_safe_without

    def is_safe_without(node_id: int, rows: Any) -> bool:
        return original(node_id, {n: replace(row, is_voter=True) for n, row in rows.items()})

    return [(healing, "is_safe_without", is_safe_without)]


def catalogue_set_aside_unasked() -> list[Patch]:
    return [(healing, "CATALOG", SimpleNamespace(first=0))]


def snapshot_installed_over_the_same_log() -> list[Patch]:
    return [(Following, "_has", lambda self, offset, epoch: False)]


# --- strangers


def proofs_not_compared() -> list[Patch]:
    careless = SimpleNamespace(digest=hmac.digest, compare_digest=lambda given, wanted: True)
    return [(handshake, "hmac", careless)]


def proofs_hold_for_either_role() -> list[Patch]:
    original = handshake._with_length
    roles = (handshake.CALLER, handshake.CALLEE)
    return [(handshake, "_with_length", lambda part: b"" if part in roles else original(part))]


# --- groups


def downgrade_forgets_what_members_have() -> list[Patch]:
    original = downgrade.encode_assignment

    def encode_assignment(held: Any, *arguments: Any, **named: Any) -> bytes:
        return original(held[1:], *arguments, **named)

    return [(downgrade, "encode_assignment", encode_assignment)]


STAGED: tuple[tuple[Callable[[], list[Patch]], Callable[[], None], str], ...] = (
    (
        pre_vote_skipped,
        rules.test_a_replica_that_is_cut_off_keeps_its_epoch,
        "a replica that is cut off stands in ever newer epochs",
    ),
    (
        pre_vote_taken_for_a_vote,
        rules.test_a_pre_vote_changes_nothing,
        "a pre-vote begins an epoch",
    ),
    (
        longer_log_of_an_older_epoch_elected,
        partial(rules.test_only_a_log_that_is_as_complete_gets_the_vote, 1, 9, False, pre=False),
        "a vote goes to a longer log whose last record is of an older epoch",
    ),
    (
        shorter_log_of_the_same_epoch_elected,
        partial(rules.test_only_a_log_that_is_as_complete_gets_the_vote, 2, 2, False, pre=False),
        "a vote goes to a shorter log whose last record is of the same epoch",
    ),
    (
        vote_kept_for_the_epoch_of_a_leader,
        rules.test_a_vote_does_not_go_on_in_an_epoch_that_is_joined_without_one,
        "who was voted for in an epoch gets the vote of the next leader's epoch",
    ),
    (
        late_votes_count,
        rules.test_votes_of_an_older_epoch_do_not_count,
        "votes of an epoch before count",
    ),
    (
        newer_epoch_ignored_by_a_leader,
        rules.test_a_leader_that_hears_of_a_newer_epoch_resigns,
        "a leader goes on when it hears of a newer epoch",
    ),
    (
        older_epochs_heard,
        rules.test_answers_to_older_epochs_are_ignored,
        "what belongs to an older epoch counts",
    ),
    (
        epoch_begun_without_a_record,
        rules.test_older_epochs_records_are_committed_by_the_first_of_the_new_epoch_only,
        "a leader does not begin its epoch with a record",
    ),
    (
        campaign_stands_at_once,
        rules.test_a_campaign_on_advice_asks_first_and_waits_for_the_promise,
        "a campaign on advice begins an epoch at once",
    ),
    (
        campaign_without_regard_to_the_promise,
        rules.test_a_campaign_on_advice_asks_first_and_waits_for_the_promise,
        "a campaign on advice breaks the promise to the leader",
    ),
    (
        voters_change_before_the_own_record,
        rules.test_voters_change_when_a_record_of_the_epoch_is_committed,
        "voters change before the epoch has a record",
    ),
    (
        batches_wait_for_the_own_sync,
        rules.test_a_leaders_batches_leave_at_once_and_its_own_copy_counts_when_it_is_synced,
        "a leader's batches wait for its own sync",
    ),
    (
        truncation_forgotten_by_syncs,
        rules.test_a_sync_that_began_before_a_truncation_says_nothing_of_what_replaced_it,
        "a sync covers what replaced the records that it was begun for",
    ),
    (
        truncated_records_still_on_disk,
        rules.test_what_replaces_synced_records_is_not_synced_yet,
        "records count as synced that replaced synced ones",
    ),
    (
        handed_over_before_all_is_sent,
        rules.test_a_leader_hands_over_only_what_is_complete_and_never_answers_again,
        "a leader hands over to a replica that lacks records",
    ),
    (
        lease_renewed_after_the_transfer,
        rules.test_a_leader_hands_over_only_what_is_complete_and_never_answers_again,
        "a leader that has handed over renews its lease",
    ),
    (
        leadership_kept_after_the_transfer,
        rules.test_a_leader_hands_over_only_what_is_complete_and_never_answers_again,
        "a leader that has handed over goes on when nobody takes over",
    ),
    (
        transfer_frees_from_every_promise,
        partial(
            rules.test_a_transfer_frees_from_the_promise_for_the_next_epoch_only, 3, answered=False
        ),
        "a transfer of leadership ends the promise to another leader",
    ),
    (
        requests_do_not_wake_the_lease,
        rest.test_a_leader_at_rest_that_is_asked_has_a_lease_after_one_round,
        "an idle leader that is asked has no lease for long",
    ),
    (
        requests_wake_the_lease_for_one_round,
        rest.test_as_long_as_it_is_asked_now_and_then_its_lease_never_ends,
        "a leader rests at once when a request was answered",
    ),
    (
        leader_rests_while_a_voter_is_away,
        rest.test_a_leader_does_not_rest_while_a_voter_is_away,
        "a leader rests although a voter is away",
    ),
    (
        leader_rests_too_long,
        rest.test_a_leader_that_nobody_asks_gives_few_signs_of_life_and_stays_leader,
        "standbys take a leader at rest for dead",
    ),
    (
        unleased_leader_stays,
        in_a_cluster(
            hosts.test_a_leader_whose_answers_have_had_no_lease_for_an_election_timeout_hands_over
        ),
        "a leader that has no lease for long keeps the leadership",
    ),
    (
        patience_without_a_lease_begins_anew,
        in_a_cluster(
            hosts.test_a_leader_whose_answers_have_had_no_lease_for_an_election_timeout_hands_over
        ),
        "each turn without a lease counts as the first",
    ),
    (
        expiry_with_any_clock,
        clocks.test_offsets_expire_while_the_clocks_agree_and_not_while_they_do_not,
        "offsets expire while no majority of the clocks agrees",
    ),
    (
        own_clock_believed,
        partial(
            clocks.test_the_time_is_what_a_majority_of_the_clocks_says,
            30 * clocks.DAYS,
            (5, 9),
            9,
            agreed=True,
        ),
        "a node believes its own clock against the others'",
    ),
    (
        copy_opened,
        stale_machine.test_a_copy_is_refused_when_it_is_opened,
        "an older copy is opened beside the file that knows better",
    ),
    (
        learners_taken_for_voters,
        test_healing.test_every_partition_of_the_node_must_be_safe,
        "a log is set aside while a learner counts as a voter",
    ),
    (
        catalogue_set_aside_unasked,
        test_healing.test_every_partition_of_the_node_must_be_safe,
        "a log is set aside though others may lack the catalogue",
    ),
    (
        proofs_not_compared,
        peers.test_a_proof_holds_for_one_link_and_one_role,
        "a stranger's proof is taken for a peer's",
    ),
    (
        proofs_hold_for_either_role,
        peers.test_a_proof_holds_for_one_link_and_one_role,
        "a peer's proof may be sent back to it",
    ),
    (
        downgrade_forgets_what_members_have,
        downgrades.test_a_downgrade_that_names_what_members_have_is_good,
        "a group that becomes a classic one forgets a partition of each member",
    ),
    (
        snapshot_installed_over_the_same_log,
        rules.test_a_snapshot_of_what_is_there_is_not_installed,
        "a snapshot is installed over a log that has what is in it",
    ),
)
STAGED_MUTATIONS: Mapping[str, StagedMutation] = {
    bug.__name__: StagedMutation(about, bug, test) for bug, test, about in STAGED
}
