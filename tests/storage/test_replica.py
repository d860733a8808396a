"""The replication state machine with one voter: what may be said when."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.batch import Batch
from storage.log import AppendBatch, ApplyState, DropBefore, MemoryLog, SaveVote, Stored
from storage.messages import ReplicaKey
from storage.quorum import committed_offset, majority
from storage.replica import LEADER_CHANGE_KEY, Replica, ReplicaOptions, Role
from storage.snapshot import (
    KEPT_BATCHES,
    KEPT_BYTES,
    LARGE_BYTES,
    STEP_BYTES,
    STEP_RECORDS,
    STEP_SMALL_BYTES,
    Compactor,
)
from storage.timing import Timing

NOW = 1_700_000_000_000
RECORD = (b"key", b"value")


def setting(log: MemoryLog) -> ReplicaOptions:
    me = ReplicaKey(3, "")
    return ReplicaOptions(
        me=me, partition=0, voters=(me,), timing=Timing(), rng=random.Random(1), log=log
    )


def replica(log: MemoryLog) -> Replica:
    stored = log.stored(0)
    return Replica(setting(log), stored, list(log.batches(0, stored.applied_offset)), NOW)


def turn(subject: Replica, log: MemoryLog) -> list[Batch]:
    """Write what is ready, say so, and return what is committed then."""
    committed = []
    while subject.is_ready:
        ready = subject.ready()
        committed += ready.committed
        log.write(ready.writes, sync=True)
        subject.persisted(NOW)
    return committed


def leader(log: MemoryLog) -> Replica:
    subject = replica(log)
    subject.campaign(NOW)
    turn(subject, log)
    return subject


@pytest.mark.parametrize(("voters", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)], ids=str)
def test_a_majority_is_more_than_half(voters: int, needed: int) -> None:
    assert majority(voters) == needed


@given(st.lists(st.integers(0, 20), min_size=1, max_size=7))
def test_what_is_committed_is_on_a_majority_and_no_more_could_be(ends: list[int]) -> None:
    offset = committed_offset(ends)
    assert sum(end >= offset for end in ends) >= majority(len(ends))
    assert sum(end > offset for end in ends) < majority(len(ends))


def test_the_vote_is_on_disk_before_it_counts() -> None:
    subject = replica(MemoryLog())
    subject.campaign(NOW)
    assert subject.role is Role.CANDIDATE
    subject.persisted(NOW)  # of nothing: the vote was not even handed out
    assert subject.role is Role.CANDIDATE
    assert subject.ready().writes == [SaveVote(0, 1, 3, 0)]
    assert subject.role is Role.CANDIDATE
    subject.persisted(NOW)
    assert subject.role is Role.LEADER


def test_an_epoch_begins_with_a_leader_change_record() -> None:
    log = MemoryLog()
    subject = leader(log)
    [batch] = log.batches(0, 0)
    assert (batch.leader_epoch, batch.control) == (1, True)
    [(key, value)] = batch.records
    assert key == LEADER_CHANGE_KEY
    # version 0, leader 3, one voter 3, one granting voter 3, no tagged fields
    assert value == bytes.fromhex("0000 00000003 02 00000003 00 02 00000003 00 00")
    assert subject.high_watermark == 1


def test_the_high_watermark_waits_for_the_leaders_own_disk() -> None:
    log = MemoryLog()
    subject = leader(log)
    assert subject.append([RECORD, RECORD], NOW) == 3
    assert subject.high_watermark == 1
    ready = subject.ready()
    assert ready.committed == []
    log.write(ready.writes, sync=True)
    assert subject.high_watermark == 1
    subject.persisted(NOW)
    assert subject.high_watermark == 3
    [batch] = subject.ready().committed
    assert (batch.base_offset, batch.end_offset, batch.timestamp_ms) == (1, 3, NOW)


def test_what_is_appended_while_a_write_is_under_way_is_not_committed_by_it() -> None:
    subject = leader(MemoryLog())
    subject.append([RECORD], NOW)
    subject.ready()
    subject.append([RECORD], NOW)
    subject.persisted(NOW)
    assert subject.high_watermark == 2
    subject.ready()
    subject.persisted(NOW)
    assert subject.high_watermark == 3


def test_an_earlier_epochs_records_are_committed_by_the_new_epochs_first_record() -> None:
    log = MemoryLog()
    first = leader(log)
    first.append([RECORD], NOW)
    log.write(first.ready().writes, sync=True)  # the leader dies before it knows

    second = replica(log)
    second.campaign(NOW)
    log.write(second.ready().writes, sync=True)
    second.persisted(NOW)
    assert second.epoch == 2
    assert second.high_watermark < 2
    committed = turn(second, log)
    assert [batch.base_offset for batch in committed][-2:] == [1, 2]
    assert second.high_watermark == 3


def test_an_epoch_is_never_used_twice_even_if_the_vote_was_not_found() -> None:
    stored = Stored(
        epoch=2, voted_for=3, applied_offset=5, applied_epoch=4, end_offset=5, last_epoch=4
    )
    subject = Replica(setting(MemoryLog()), stored)
    subject.campaign(NOW)
    assert subject.epoch == 5


def test_a_follower_without_a_leader_stands_for_election_as_time_passes() -> None:
    subject = replica(MemoryLog())
    subject.tick(NOW)
    assert subject.role is Role.CANDIDATE
    subject.tick(NOW)
    assert subject.epoch == 1


def test_a_leader_asked_to_campaign_stays_leader_of_its_epoch() -> None:
    subject = leader(MemoryLog())
    subject.campaign(NOW)
    assert (subject.role, subject.epoch) == (Role.LEADER, 1)


@given(st.lists(st.sampled_from(["append", "write", "crash"]), max_size=40), st.data())
def test_nothing_reported_committed_is_ever_lost(steps: list[str], data: st.DataObject) -> None:
    log = MemoryLog()
    subject = leader(log)
    known: list[Batch] = list(log.batches(0, 0))
    for step in steps:
        if step == "append":
            subject.append([(b"%d" % subject.end_offset, b"v")], NOW)
        elif step == "write":
            ready = subject.ready()
            known += ready.committed
            log.write(ready.writes, sync=True)
            subject.persisted(NOW)
        else:
            log.write(subject.ready().writes, sync=False)
            log = log.crash(kept=data.draw(st.integers(0, log.unsynced)))
            subject = leader(log)
            known += list(log.batches(0, known[-1].end_offset))
        assert list(log.batches(0, 0))[: len(known)] == known


def batch(offset: int, *keys: bytes, value: bytes | None = b"v") -> Batch:
    return Batch(offset, 1, NOW, tuple((key, value) for key in keys))


def gathered(*batches: Batch) -> Compactor:
    compactor = Compactor(0, Stored())
    for each in batches:
        compactor.hold(each)
        compactor.add(each)
    return compactor


def test_the_state_gets_the_last_value_of_each_key_and_no_control_records() -> None:
    compactor = gathered(
        batch(0, b"a", b"b"), batch(2, b"a", value=None), Batch(3, 2, NOW, ((b"c", b"c"),), True)
    )
    assert compactor.writes() == [ApplyState(0, 4, 2, ((b"a", None), (b"b", b"v")))]
    assert compactor.applied_offset == 4
    assert compactor.writes() == []


def test_the_state_is_written_when_enough_keys_or_bytes_or_batches_have_come() -> None:
    assert not gathered(batch(0, b"a")).due()
    assert gathered(batch(0, *(b"%d" % n for n in range(STEP_RECORDS)))).due()
    assert gathered(batch(0, b"a", value=bytes(STEP_BYTES))).due()
    assert gathered(*(batch(n, b"same") for n in range(2 * STEP_RECORDS))).due()


def test_little_of_the_state_is_written_at_a_time_unless_large_records_are_rewritten() -> None:
    kib = bytes(1 << 10)
    many = STEP_SMALL_BYTES // len(kib)
    assert gathered(*(batch(n, b"%d" % n, value=kib) for n in range(many))).due()
    assert not gathered(*(batch(n, b"%d" % n, value=kib) for n in range(many // 2))).due()
    assert not gathered(*(batch(n, b"same", value=kib) for n in range(2 * many))).due()
    large = [batch(n, b"group", value=bytes(LARGE_BYTES)) for n in range(10)]
    assert not gathered(*large).due()
    assert gathered(*large * (STEP_BYTES // LARGE_BYTES // 10 + 1)).due()


def test_the_log_keeps_a_bounded_number_of_batches_behind_the_snapshot() -> None:
    compactor = gathered(*(batch(n, b"same") for n in range(3 * KEPT_BATCHES)))
    apply, drop = compactor.writes()
    assert isinstance(apply, ApplyState)
    assert drop == DropBefore(0, 2 * KEPT_BATCHES)


def test_of_large_batches_the_log_keeps_few() -> None:
    large = bytes(KEPT_BYTES // 4)
    compactor = gathered(*(batch(n, b"same", value=large) for n in range(12)))
    apply, drop = compactor.writes()
    assert isinstance(apply, ApplyState)
    assert drop == DropBefore(0, 8)


def test_batches_that_the_state_lacks_are_never_dropped() -> None:
    compactor = gathered(batch(0, b"a"))
    for offset in range(1, 3 * KEPT_BATCHES):
        compactor.hold(batch(offset, b"uncommitted"))
    [apply] = compactor.writes()[:1]
    assert apply == ApplyState(0, 1, 1, ((b"a", b"v"),))
    assert compactor.start_offset <= 1


def test_an_append_is_one_batch_of_its_leaders_epoch() -> None:
    subject = leader(MemoryLog())
    subject.append([RECORD, (b"gone", None)], NOW)
    assert subject.ready().writes == [AppendBatch(0, Batch(1, 1, NOW, (RECORD, (b"gone", None))))]
