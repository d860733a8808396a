"""What one replica of several may say, and when: the rules of Raft, one by one."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from storage.batch import Batch
from storage.control import VOTERS_CHANGE_KEY, voters_change
from storage.log import (
    AppendBatch,
    BeginInstall,
    FinishInstall,
    MemoryLog,
    SaveVote,
    SaveVoters,
    TruncateFrom,
)
from storage.messages import (
    Append,
    Appended,
    InstallSnapshot,
    Joining,
    Message,
    ReplicaKey,
    SnapshotInstalled,
    TransferLeadership,
    Vote,
    Voted,
)
from storage.replica import Ready, Replica, ReplicaOptions, Role
from storage.timing import Timing

KEYS = tuple(ReplicaKey(node, f"directory-{node}") for node in range(3))
ME, LEADER, OTHER = KEYS
TIMING = Timing()
PROMISE = TIMING.promise_ms
LATER = 10_000
"""When nothing promised before the start binds any more."""


def batch(offset: int, epoch: int, records: int = 1) -> Batch:
    return Batch(offset, epoch, 0, tuple((b"%d" % n, b"v") for n in range(records)))


class One:
    """A replica, its log, and what it said last."""

    def __init__(self, *batches: Batch, epoch: int = 0, voters=KEYS, wanted=frozenset()) -> None:
        self.log = MemoryLog()
        self.setting = ReplicaOptions(
            me=ME, partition=0, voters=voters, timing=TIMING, rng=random.Random(1), log=self.log,
            wanted=wanted,
        )  # fmt: skip
        self.log.write([AppendBatch(0, one) for one in batches], sync=True)
        self.log.write([SaveVote(0, epoch, -1, 0)], sync=True)
        self.start(0)
        self.now = LATER

    def start(self, now: int) -> None:
        stored = self.log.stored(0)
        tail = self.log.batches(0, stored.applied_offset)
        self.replica = Replica(self.setting, stored, tail, now)
        self.now = now

    def hear(self, *messages: Message) -> Ready:
        for message in messages:
            self.replica.step(message, self.now)
        return self.turn()

    def write(self, unit: int, *messages: Message) -> Ready:
        """Take messages and begin to write what follows as one unit; return what leaves now."""
        for message in messages:
            self.replica.step(message, self.now)
        whole = Ready()
        while self.replica.is_ready:
            ready = self.replica.ready(self.now, unit)
            self.log.write(ready.writes, sync=False)
            whole.writes += ready.writes
            whole.messages += ready.messages
            whole.committed += ready.committed
        return whole

    def synced(self, unit: int) -> Ready:
        """End the sync of the units up to this one; return what leaves then."""
        self.replica.persisted(self.now, unit)
        return self.write(unit + 1)

    def turn(self) -> Ready:
        """Write what is ready until nothing is; return all of it."""
        whole = Ready()
        while self.replica.is_ready:
            ready = self.replica.ready()
            self.log.write(ready.writes, sync=True)
            self.replica.persisted(self.now)
            whole.writes += ready.writes
            whole.messages += ready.messages
            whole.committed += ready.committed
            whole.elected |= ready.elected
            whole.resigned |= ready.resigned
            whole.snapshot = ready.snapshot or whole.snapshot
        return whole

    def tick(self, now: int) -> Ready:
        self.now = now
        self.replica.tick(now)
        return self.turn()

    def lead(self) -> "One":
        self.tick(LATER)
        epoch = self.replica.epoch + 1
        self.hear(Voted(0, epoch, OTHER, True, True))
        self.hear(Voted(0, epoch, OTHER, True, False))
        assert self.replica.role is Role.LEADER
        return self

    def acknowledge(self, *peers: ReplicaKey, sent_ms: int | None = None) -> Ready:
        replica = self.replica
        sent = self.now if sent_ms is None else sent_ms
        return self.hear(
            *(
                Appended(0, replica.epoch, p, True, replica.end_offset, replica.epoch, sent)
                for p in peers
            )
        )


def vote(
    epoch: int, last_epoch: int = 0, end: int = 0, *, pre: bool = False, transfer: bool = False
) -> Vote:
    return Vote(0, epoch, OTHER, last_epoch, end, pre, transfer)


def append(
    epoch: int, previous: int, previous_epoch: int, *batches: Batch, high_watermark: int = 0
) -> Append:
    return Append(0, epoch, LEADER, previous, previous_epoch, batches, high_watermark, 77)


def granted(ready: Ready) -> list[bool]:
    return [m.granted for _, m in ready.messages if isinstance(m, Voted)]


@pytest.mark.parametrize(
    ("last_epoch", "end", "expected"),
    [(2, 3, True), (2, 4, True), (3, 1, True), (2, 2, False), (1, 9, False), (0, 0, False)],
)
@pytest.mark.parametrize("pre", [False, True], ids=["vote", "pre-vote"])
def test_only_a_log_that_is_as_complete_gets_the_vote(
    last_epoch: int, end: int, expected: bool, pre: bool
) -> None:
    voter = One(batch(0, 1), batch(1, 2, 2), epoch=2)
    assert granted(voter.hear(vote(3, last_epoch, end, pre=pre))) == [expected]


def test_a_replica_votes_once_per_epoch_and_writes_it_before_it_says_so() -> None:
    voter = One()
    voter.replica.step(vote(1), voter.now)
    ready = voter.replica.ready()
    assert ready.writes == [SaveVote(0, 1, OTHER.node_id, 0)]
    assert granted(ready) == [] and not voter.replica.is_ready
    voter.log.write(ready.writes, sync=True)
    voter.replica.persisted(voter.now)
    assert granted(voter.turn()) == [True]
    assert granted(voter.hear(Vote(0, 1, LEADER, 9, 9, False, False))) == [False]
    assert granted(voter.hear(vote(1))) == [True]  # the same candidate asks again
    voter.start(LATER)
    voter.now += PROMISE
    assert granted(voter.hear(Vote(0, 1, LEADER, 9, 9, False, False))) == [False]


def test_a_pre_vote_changes_nothing() -> None:
    voter = One()
    ready = voter.hear(vote(5, pre=True))
    assert (granted(ready), ready.writes, voter.replica.epoch) == ([True], [], 0)


def test_a_candidate_asks_before_it_stands_and_needs_a_majority_for_both() -> None:
    one = One(epoch=4)
    ready = one.tick(LATER)
    assert one.replica.role is Role.PROSPECTIVE
    assert {m.pre_vote for _, m in ready.messages} == {True}
    assert one.replica.epoch == 4
    ready = one.hear(Voted(0, 5, OTHER, True, True))
    assert one.replica.role is Role.CANDIDATE
    assert ready.writes == [SaveVote(0, 5, ME.node_id, 0)]
    assert {(m.epoch, m.pre_vote) for _, m in ready.messages} == {(5, False)}
    assert one.hear(Voted(0, 5, ReplicaKey(1, "unknown"), True, False)).elected is False
    assert one.hear(Voted(0, 5, OTHER, True, False)).elected is True


def test_a_replica_that_is_cut_off_keeps_its_epoch() -> None:
    alone = One(batch(0, 1), epoch=4)
    for now in range(LATER, LATER + 20 * TIMING.election_max_ms, TIMING.heartbeat_ms):
        asked = [m for _, m in alone.tick(now).messages if isinstance(m, Vote)]
        assert all(m.pre_vote for m in asked)
    assert alone.replica.role is Role.PROSPECTIVE
    assert alone.replica.epoch == 4


def test_a_vote_does_not_go_on_in_an_epoch_that_is_joined_without_one() -> None:
    voter = One()
    assert granted(voter.hear(vote(1))) == [True]
    voter.hear(append(2, 0, 0))
    assert voter.replica.voted_for == -1
    assert granted(voter.hear(vote(2, 9, 9))) == [False]


def test_votes_of_an_older_epoch_do_not_count() -> None:
    one = One(epoch=4)
    for epoch in (5, 6):
        one.tick(one.now + TIMING.election_max_ms)
        assert one.replica.role is Role.PROSPECTIVE
        one.hear(Voted(0, epoch, OTHER, True, True))
        assert (one.replica.role, one.replica.epoch) == (Role.CANDIDATE, epoch)
    assert one.hear(Voted(0, 5, OTHER, True, False)).elected is False
    assert one.hear(Voted(0, 6, OTHER, True, False)).elected is True


def test_a_campaign_on_advice_asks_first_and_waits_for_the_promise() -> None:
    follower = One()
    follower.hear(append(1, 0, 0))
    follower.replica.campaign(LATER + 1)
    assert follower.turn().messages == []
    assert follower.tick(LATER + PROMISE - 1).messages == []
    ready = follower.tick(LATER + PROMISE)
    assert [(m.epoch, m.pre_vote) for _, m in ready.messages] == [(2, True)] * 2
    assert follower.replica.epoch == 1


def test_a_follower_parks_votes_while_its_promise_lasts_and_answers_then() -> None:
    voter = One()
    voter.hear(append(1, 0, 0))
    assert granted(voter.hear(vote(2, 9, 9))) == []
    assert voter.replica.epoch == 1
    assert granted(voter.tick(LATER + PROMISE - 1)) == []
    assert granted(voter.tick(LATER + PROMISE)) == [True]


@pytest.mark.parametrize(("epoch", "answered"), [(2, True), (3, False)])
def test_a_transfer_frees_from_the_promise_for_the_next_epoch_only(
    epoch: int, answered: bool
) -> None:
    voter = One()
    voter.hear(append(1, 0, 0))
    ready = voter.hear(vote(epoch, 9, 9, transfer=True))
    assert granted(ready) == ([True] if answered else [])


@pytest.mark.parametrize(
    "newer",
    [vote, lambda epoch: Voted(0, epoch, OTHER, False, True)],
    ids=["vote", "epoch"],
)
def test_a_replica_that_grants_no_vote_stands_when_its_timeout_ends(
    newer: Callable[[int], Message],
) -> None:
    voter = One(batch(0, 1), epoch=1)
    voter.hear(append(1, 1, 1))
    epoch, end = 1, voter.now + TIMING.election_max_ms
    for now in range(voter.now + PROMISE, end, TIMING.heartbeat_ms):
        voter.tick(now)
        if voter.replica.role is Role.PROSPECTIVE:
            break
        epoch += 1
        assert granted(voter.hear(newer(epoch))) in ([], [False])
        assert voter.replica.epoch == epoch
    voter.tick(end)
    assert voter.replica.role is Role.PROSPECTIVE


def test_after_a_start_no_vote_is_given_before_an_unknown_promise_is_over() -> None:
    voter = One()
    voter.start(LATER)
    assert granted(voter.hear(vote(1, 9, 9))) == []
    assert granted(voter.tick(LATER + PROMISE)) == [True]


def test_the_promise_outlasts_the_lease_for_clocks_that_differ_by_5_percent_each_way() -> None:
    for lease_ms in range(50, 5_000, 7):
        promise_ms = Timing(lease_ms=lease_ms).promise_ms
        assert (promise_ms - 2) / 1.05 >= lease_ms / 0.95 or lease_ms < 100
        assert promise_ms / 1.05 >= lease_ms / 0.95


@pytest.mark.parametrize(
    ("message", "accepted", "end", "last_epoch"),
    [
        (append(4, 3, 2), True, 3, 2),
        (append(4, 5, 3), True, 5, 3),
        (append(4, 7, 3), False, 5, 3),
        (append(4, 5, 4), False, 3, 2),
        (append(4, 4, 2), False, 3, 2),
        (append(4, 3, 1), False, 1, 1),
    ],
    ids=["inside", "end", "beyond", "newer epoch", "older epoch", "oldest epoch"],
)
def test_batches_are_taken_only_where_the_logs_agree_before_them(
    message: Append, accepted: bool, end: int, last_epoch: int
) -> None:
    follower = One(batch(0, 1), batch(1, 2, 2), batch(3, 3, 2), epoch=3)
    [(to, answer)] = follower.hear(message).messages
    assert isinstance(answer, Appended)
    assert (to, answer.accepted, answer.end_offset) == (LEADER.node_id, accepted, end)
    assert answer.sent_ms == 77
    if not accepted:
        assert answer.last_epoch == last_epoch


def test_each_refusal_brings_the_leader_nearer_however_many_epochs_lie_between() -> None:
    follower = One(batch(0, 1), batch(1, 2), batch(2, 3), batch(3, 6, records=5), epoch=6)
    # The leader, of epoch 10, has records of epoch 8 there, and knows of none that are older.
    [(_, answer)] = follower.hear(append(10, 3, 8)).messages
    assert isinstance(answer, Appended)
    assert (answer.accepted, answer.end_offset, answer.last_epoch) == (False, 2, 2)


def test_what_differs_from_the_leader_is_dropped_and_nothing_else() -> None:
    follower = One(batch(0, 1), batch(1, 2), batch(2, 2), epoch=2)
    ready = follower.hear(append(3, 1, 1, batch(1, 2)))  # an old message, all of it known
    assert not any(isinstance(w, TruncateFrom) for w in ready.writes)
    assert follower.replica.end_offset == 3
    ready = follower.hear(append(3, 1, 1, batch(1, 2), batch(2, 3)))
    assert ready.writes == [TruncateFrom(0, 2), AppendBatch(0, batch(2, 3))]


def test_a_truncation_below_the_high_watermark_is_refused_loudly() -> None:
    follower = One(batch(0, 1), batch(1, 1), epoch=1)
    follower.hear(append(2, 2, 1, high_watermark=2))
    with pytest.raises(AssertionError, match="never truncated"):
        follower.replica._core.truncate(1)


def test_a_follower_commits_only_what_is_matched() -> None:
    follower = One(batch(0, 1), batch(1, 1), batch(2, 1), epoch=1)
    ready = follower.hear(append(2, 2, 1, high_watermark=9))
    assert follower.replica.high_watermark == 2  # its third batch may differ from the leader's
    assert [b.base_offset for b in ready.committed] == [0, 1]


def test_a_leader_of_the_past_hears_of_the_newer_epoch() -> None:
    follower = One(epoch=5)
    [(to, answer)] = follower.hear(append(4, 0, 0, batch(0, 4))).messages
    assert isinstance(answer, Appended)
    assert (to, answer.epoch, answer.accepted) == (LEADER.node_id, 5, False)
    assert follower.replica.end_offset == 0


def test_a_leader_that_hears_of_a_newer_epoch_resigns() -> None:
    leader = One().lead()
    ready = leader.hear(Appended(0, 9, OTHER, False, 0, 0, 0))
    assert (ready.resigned, leader.replica.role, leader.replica.epoch) == (
        True, Role.FOLLOWER, 9,
    )  # fmt: skip
    assert leader.replica.lease_until_ms == 0
    assert leader.replica.leader_id == -1


def test_older_epochs_records_are_committed_by_the_first_of_the_new_epoch_only() -> None:
    leader = One(batch(0, 1), epoch=1).lead()
    replica = leader.replica
    leader.hear(Appended(0, replica.epoch, OTHER, True, 1, 1, LATER))
    assert replica.high_watermark == 0  # on a majority, but of an older epoch
    assert [b.base_offset for b in leader.acknowledge(OTHER).committed] == [0, 1]
    assert replica.high_watermark == 2


def test_answers_to_older_epochs_are_ignored() -> None:
    leader = One(epoch=3).lead()
    leader.hear(Appended(0, 3, OTHER, True, 1, 4, LATER + 5))
    assert leader.replica.high_watermark == 0
    assert leader.replica.lease_until_ms == 0


def test_the_lease_counts_from_when_the_message_was_sent_that_a_majority_answered() -> None:
    leader = One().lead()
    assert leader.replica.lease_until_ms == 0
    leader.now += 40
    leader.acknowledge(OTHER, sent_ms=LATER + 7)
    assert leader.replica.lease_until_ms == LATER + 7 + TIMING.lease_ms
    leader.acknowledge(OTHER, sent_ms=LATER + 3)  # an old answer
    assert leader.replica.lease_until_ms == LATER + 7 + TIMING.lease_ms


def test_a_doubted_lease_is_over_and_counts_from_later_messages_only() -> None:
    leader = One().lead()
    leader.acknowledge(OTHER, sent_ms=LATER)
    leader.replica.doubt(LATER)
    assert leader.replica.lease_until_ms == 0
    leader.acknowledge(OTHER, sent_ms=LATER)
    assert leader.replica.lease_until_ms == 0, "it was sent before, though in the same ms"
    sent = [m for _, m in leader.tick(LATER + 1).messages if isinstance(m, Append)]
    assert {m.sent_ms for m in sent} == {LATER + 1}
    leader.acknowledge(OTHER, sent_ms=LATER + 1)
    assert leader.replica.lease_until_ms == LATER + 1 + TIMING.lease_ms
    assert leader.replica.role is Role.LEADER


def test_a_doubt_gives_no_lease_back_to_one_that_handed_over() -> None:
    leader = One(batch(0, 1), epoch=1).lead()
    leader.acknowledge(OTHER)
    assert leader.replica.transfer_to(OTHER.node_id, leader.now)
    leader.turn()
    leader.replica.doubt(leader.now)
    leader.now += 1
    leader.acknowledge(OTHER)
    assert leader.replica.lease_until_ms == 0


def test_a_leader_without_a_majority_steps_down_after_the_election_timeout() -> None:
    leader = One().lead()
    leader.acknowledge(OTHER, sent_ms=LATER)
    assert leader.tick(LATER + TIMING.election_min_ms - 1).resigned is False
    later = LATER + TIMING.election_min_ms + TIMING.heartbeat_ms
    assert leader.tick(later).resigned is True


def test_a_restarted_leader_trusts_no_lease_and_leads_no_more() -> None:
    leader = One().lead()
    leader.acknowledge(OTHER)
    leader.start(leader.now + 1)
    assert (leader.replica.role, leader.replica.lease_until_ms) == (Role.FOLLOWER, 0)


def test_a_broken_link_to_the_leader_starts_an_election_when_the_promise_is_over() -> None:
    follower = One()
    follower.tick(1)
    follower.now = LATER
    follower.hear(append(1, 0, 0))
    follower.replica.peer_down(LEADER.node_id, LATER + 1)
    assert follower.tick(LATER + PROMISE - 1).messages == []
    ready = follower.tick(LATER + PROMISE)
    assert {type(m) for _, m in ready.messages} == {Vote}


def test_a_new_leaders_word_calls_the_election_off() -> None:
    follower = One()
    follower.hear(append(1, 0, 0))
    follower.replica.peer_down(LEADER.node_id, LATER + 1)
    follower.now += 100
    follower.hear(append(1, 0, 0))
    assert follower.tick(LATER + 2 * PROMISE - 80).messages == []


def test_a_leader_hands_over_only_what_is_complete_and_never_answers_again() -> None:
    leader = One().lead()
    leader.acknowledge(OTHER)
    leader.replica.append([(b"k", b"v")], leader.now)
    assert leader.replica.transfer_to(LEADER.node_id, leader.now)
    assert not any(isinstance(m, TransferLeadership) for _, m in leader.turn().messages)
    ready = leader.acknowledge(OTHER, LEADER)
    assert (LEADER.node_id, TransferLeadership(0, 1, ME)) in ready.messages
    assert leader.replica.lease_until_ms == 0
    leader.now += 1
    leader.acknowledge(OTHER, LEADER)
    assert leader.replica.lease_until_ms == 0
    leader.now += TIMING.election_min_ms  # nobody took over
    leader.acknowledge(OTHER, LEADER)
    assert leader.tick(leader.now).resigned is True


def test_who_is_handed_the_leadership_stands_at_once() -> None:
    follower = One()
    follower.hear(append(1, 0, 0))
    ready = follower.hear(TransferLeadership(0, 1, LEADER))
    questions = [m for _, m in ready.messages if isinstance(m, Vote)]
    assert [(m.epoch, m.pre_vote, m.transfer) for m in questions] == [(2, False, True)] * 2


def test_a_voter_that_lost_its_disk_is_replaced_one_step_at_a_time() -> None:
    leader = One().lead()
    leader.acknowledge(OTHER)
    new = ReplicaKey(LEADER.node_id, "another directory")
    leader.hear(Joining(0, 1, new))
    assert leader.replica.learners == (new,)
    leader.acknowledge(new)
    leader.tick(leader.now + TIMING.heartbeat_ms)
    assert leader.replica.voters == (ME, OTHER)
    leader.tick(leader.now + TIMING.heartbeat_ms)
    assert leader.replica.voters == (ME, OTHER)  # the first change is not committed yet
    ready = leader.acknowledge(OTHER)
    assert SaveVoters(0, (ME, OTHER), leader.replica.end_offset - 1) in ready.writes
    assert leader.replica.voters == (ME, OTHER, new)
    assert leader.replica.learners == ()


def test_voters_change_when_a_record_of_the_epoch_is_committed() -> None:
    leader = One(batch(0, 1), epoch=1).lead()
    leadership = leader.replica._leadership
    assert leadership is not None
    assert not leadership.change_voters(KEYS[:2])
    assert leader.replica.voters == KEYS
    leader.acknowledge(OTHER)
    assert leadership.change_voters(KEYS[:2])
    assert leader.replica.voters == KEYS[:2]


def test_a_learner_does_not_count() -> None:
    leader = One().lead()
    leader.hear(Joining(0, 1, ReplicaKey(7, "learner")))
    leader.acknowledge(ReplicaKey(7, "learner"))
    assert leader.replica.high_watermark == 0
    assert leader.replica.lease_until_ms == 0


def test_a_leader_names_the_voters_that_have_all_that_is_committed() -> None:
    """A log may be set aside only when a majority without it is among them."""
    stranger = ReplicaKey(1, "another-directory")
    one = One().lead()
    replica = one.replica
    assert replica.complete == ()
    one.acknowledge(OTHER)
    assert replica.complete == (0, OTHER.node_id)
    replica.append([(b"key", b"value")], one.now)
    one.turn()
    assert replica.complete == (0, OTHER.node_id), "it is not committed yet"
    one.acknowledge(LEADER)
    assert replica.complete == (0, LEADER.node_id)
    one.hear(Joining(0, replica.epoch, stranger))
    one.acknowledge(stranger)
    assert stranger.node_id not in replica.complete
    one.now += TIMING.election_min_ms
    one.acknowledge(OTHER)
    assert replica.complete == (0, OTHER.node_id), "one that is silent may be gone"


def test_a_change_of_voters_counts_from_its_record_on_and_is_undone_with_it() -> None:
    follower = One(epoch=1)
    change = Batch(0, 1, 0, ((VOTERS_CHANGE_KEY, voters_change(KEYS[:2])),), True)
    follower.hear(append(1, 0, 0, change))
    assert follower.replica.voters == KEYS[:2]
    follower.hear(append(2, 0, 0, batch(0, 2)))
    assert follower.replica.voters == KEYS


def test_a_replica_with_an_empty_disk_asks_for_the_log_and_never_stands() -> None:
    learner = One(voters=())
    learner.replica.peer_up(1, LATER)
    ready = learner.tick(LATER)
    assert ready.messages == [(1, Joining(0, 0, ME))]
    assert learner.tick(LATER + 60_000).messages == [(1, Joining(0, 0, ME))]
    assert learner.replica.role is Role.FOLLOWER


def slice_of(position: int, is_last: bool = False, offset: int = 9) -> InstallSnapshot:
    records = ((b"k%d" % position, b"v"),)
    return InstallSnapshot(0, 3, LEADER, offset, 2, position, records, is_last, KEYS[:2], 77)


def test_a_snapshot_is_taken_slice_by_slice_and_resumed_where_it_broke_off() -> None:
    follower = One(batch(0, 1), epoch=1)
    ready = follower.hear(slice_of(0))
    assert BeginInstall(0, 9, 2) in ready.writes
    assert ready.snapshot is not None
    assert not ready.snapshot.done
    for repeated in (slice_of(0), slice_of(5)):
        [(_, answer)] = follower.hear(repeated).messages
        assert answer == SnapshotInstalled(0, 3, ME, 9, 1, 77)
    ready = follower.hear(slice_of(1, is_last=True))
    assert FinishInstall(0, 9, 2) in ready.writes
    assert ready.snapshot is not None
    assert ready.snapshot.done
    assert dict(follower.log.state(0)) == {b"k0": b"v", b"k1": b"v"}
    assert (follower.replica.end_offset, follower.replica.high_watermark) == (9, 9)
    assert follower.replica.voters == KEYS[:2]


def test_a_snapshot_that_its_leader_begins_again_is_taken_from_the_start() -> None:
    """Else the leader sends slice 0, and the follower asks for slice 2, for ever (seed 608612)."""
    follower = One(batch(0, 1), epoch=1)
    for position in (0, 1):
        follower.hear(replace(slice_of(position), sent_ms=77 + position))
    [(_, answer)] = follower.hear(slice_of(0)).messages
    assert answer.next_position == 2, "a slice that was delayed on its way begins nothing"
    ready = follower.hear(replace(slice_of(0), sent_ms=80))
    assert BeginInstall(0, 9, 2) in ready.writes
    [(_, answer)] = ready.messages
    assert answer.next_position == 1
    follower.hear(replace(slice_of(1, is_last=True), sent_ms=81))
    assert dict(follower.log.state(0)) == {b"k0": b"v", b"k1": b"v"}


def test_a_snapshot_of_what_is_there_is_not_installed() -> None:
    follower = One(*(batch(n, 2) for n in range(10)), epoch=2)
    [(_, answer)] = follower.hear(slice_of(0)).messages
    assert isinstance(answer, Appended)
    assert (answer.accepted, answer.end_offset) == (True, 9)


def test_a_replica_does_not_stand_while_its_log_is_empty_for_a_snapshot() -> None:
    follower = One(batch(0, 1), epoch=1)
    follower.hear(slice_of(0))
    assert follower.tick(LATER + 60_000).messages == []
    assert granted(follower.hear(vote(4, 0, 0))) == [True]


def test_a_peer_that_does_not_answer_is_sent_a_bounded_amount() -> None:
    leader = One().lead()
    leader.acknowledge(OTHER, LEADER)
    sent = 0
    for _ in range(200):
        leader.replica.append([(b"k", bytes(100_000))], leader.now)
        messages = leader.turn().messages
        sent += sum(len(m.batches) for to, m in messages if to == 2 and isinstance(m, Append))
    assert 40 <= sent <= 64
    assert leader.replica.end_offset == 201


def test_lost_messages_are_sent_again_from_where_the_logs_agree() -> None:
    leader = One().lead()
    leader.acknowledge(OTHER, LEADER)
    leader.replica.append([(b"k", b"v")], leader.now)
    leader.turn()  # lost
    ready = leader.tick(leader.now + TIMING.heartbeat_ms)
    [beat] = [m for to, m in ready.messages if to == 2]
    assert (beat.previous_offset, beat.batches) == (2, ())
    ready = leader.hear(Appended(0, 1, OTHER, False, 1, 1, leader.now))
    [again] = [m for to, m in ready.messages if to == 2]
    assert (again.previous_offset, len(again.batches)) == (1, 1)


# --- while a sync is under way


def ends(ready: Ready) -> list[int]:
    """Return what a follower acknowledges."""
    return [m.end_offset for _, m in ready.messages if isinstance(m, Appended) and m.accepted]


def test_a_follower_acknowledges_what_each_sync_covers_and_no_more() -> None:
    follower = One(batch(0, 1), epoch=1)
    assert ends(follower.write(1, append(1, 1, 1, batch(1, 1)))) == []
    assert ends(follower.write(2, append(1, 2, 1, batch(2, 1), batch(3, 1)))) == []
    assert ends(follower.synced(1)) == [2]
    assert ends(follower.synced(2)) == [4]


def test_a_sync_that_began_before_a_truncation_says_nothing_of_what_replaced_it() -> None:
    follower = One(batch(0, 1), epoch=1)
    follower.write(1, append(1, 1, 1, batch(1, 1), batch(2, 1)))
    replacing = append(2, 1, 1, batch(1, 2), batch(2, 2))
    assert TruncateFrom(0, 1) in follower.write(2, replacing).writes
    assert ends(follower.synced(1)) == [], "of the new leader's records none is on disk"
    assert ends(follower.synced(2)) == [3]


def test_what_replaces_synced_records_is_not_synced_yet() -> None:
    follower = One(batch(0, 1), batch(1, 1), batch(2, 1), epoch=1)
    replacing = append(2, 1, 1, batch(1, 2), batch(2, 2))
    assert TruncateFrom(0, 1) in follower.write(1, replacing).writes
    assert follower.replica._core.durable == 1
    assert ends(follower.write(1, append(2, 3, 2))) == []
    assert ends(follower.synced(1)) == [3]


def test_a_slow_disk_does_not_keep_a_follower_from_answering_its_leader() -> None:
    follower = One(batch(0, 1), epoch=1)
    assert ends(follower.write(1, append(1, 1, 1, batch(1, 1)))) == []
    follower.replica.tick(follower.now)
    due = follower.replica.next_deadline()
    assert due is not None and follower.now < due <= follower.now + TIMING.lease_ms // 4
    follower.now = due
    follower.replica.tick(due)
    answered = follower.write(2)
    assert ends(answered) == [1], "the lease is renewed, the record is not acknowledged"
    assert ends(follower.write(3)) == []
    assert ends(follower.synced(3)) == [2]


def test_a_leaders_batches_leave_at_once_and_its_own_copy_counts_when_it_is_synced() -> None:
    leader = One().lead()
    leader.acknowledge(LEADER, OTHER)
    base = leader.replica.high_watermark
    leader.replica.append([(b"k", b"v")], leader.now)
    sent = leader.write(11)
    assert {to for to, m in sent.messages if isinstance(m, Append) and m.batches} == {1, 2}
    answer = Appended(0, leader.replica.epoch, OTHER, True, base + 1, 1, leader.now)
    assert leader.write(12, answer).committed == []
    assert [one.base_offset for one in leader.synced(11).committed] == [base]


def test_two_followers_commit_while_the_leaders_own_disk_is_slow() -> None:
    leader = One().lead()
    leader.acknowledge(LEADER, OTHER)
    base = leader.replica.high_watermark
    leader.replica.append([(b"k", b"v")], leader.now)
    leader.write(11)
    epoch = leader.replica.epoch
    answers = [Appended(0, epoch, peer, True, base + 1, 1, leader.now) for peer in (LEADER, OTHER)]
    assert [one.base_offset for one in leader.write(12, *answers).committed] == [base]


def test_a_candidate_asks_for_votes_when_its_own_is_synced() -> None:
    candidate = One()
    candidate.now = LATER
    candidate.replica.tick(LATER)
    candidate.write(1)
    epoch = candidate.replica.epoch + 1
    asked = candidate.write(2, Voted(0, epoch, OTHER, True, True))
    assert [m for _, m in asked.messages if isinstance(m, Vote) and not m.pre_vote] == []
    asked = candidate.synced(2)
    assert [m.pre_vote for _, m in asked.messages if isinstance(m, Vote)] == [False, False]


def test_an_acknowledgement_does_not_outlive_the_log_that_a_snapshot_replaces() -> None:
    follower = One(batch(0, 1), epoch=1)
    follower.write(1, append(2, 1, 1, batch(1, 2)))
    first = InstallSnapshot(0, 2, LEADER, 50, 2, 0, ((b"k", b"v"),), False, KEYS, 78)
    follower.write(2, first)
    answered = [m for _, m in follower.synced(1).messages]
    assert not any(isinstance(m, Appended) and m.end_offset for m in answered)
    assert follower.replica._core.durable == 0
