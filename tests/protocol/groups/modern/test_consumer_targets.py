"""Target assignments: batching, offload, what is mended, slices, failover (KIP-1263)."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from protocol.groups.effects import (
    AssignmentComputed,
    AssignmentFailed,
    CancelAssignment,
    ComputeAssignment,
    TimersDue,
)
from protocol.groups.facts import TargetAssigned, TargetAssignmentFailed
from protocol.groups.modern import target
from protocol.groups.shard import GroupShard
from protocol.records import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    Record,
)
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.conversation import GROUP, image

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.groups.effects import Event, Result


def task_of(talk: ConsumerTalk) -> ComputeAssignment:
    task = talk.tasks.popleft()
    assert isinstance(task, ComputeAssignment)
    return task


def offloaded(*names: str, **options: Any) -> ConsumerTalk:
    """Bring a group whose assignors run in a worker to rest."""
    talk = ConsumerTalk(in_place=False, **options)
    for name in names:
        talk.join(name)
    talk.converge(*(name.partition("=")[0] for name in names))
    return talk


# -- batching


def test_the_first_assignment_comes_at_once_and_the_next_when_the_interval_is_over() -> None:
    talk = ConsumerTalk(interval_ms=1_000)
    talk.join("A")
    assert talk.group.assignment_epoch == 2
    talk.advance(400)
    assert talk.join("B").member_epoch == 2
    assert talk.owned("A", "B") == [4, 0]
    talk.advance(599)
    assert (talk.group.epoch, talk.group.assignment_epoch) == (3, 2)
    talk.advance(1)
    assert talk.group.assignment_epoch == 3  # nobody had to heartbeat for that


def test_a_member_that_awaits_partitions_is_asked_back_soon_and_a_settled_one_is_not() -> None:
    talk = ConsumerTalk(interval_ms=1_000)
    assert talk.join("A").heartbeat_interval == timedelta(milliseconds=5_000)
    assert talk.join("B").heartbeat_interval == timedelta(milliseconds=1_250)
    talk.advance(1_250)
    talk.converge("A", "B")
    for name in "AB":
        assert talk.beat(name).heartbeat_interval == timedelta(milliseconds=5_000)


def test_many_changes_within_the_interval_make_one_assignment() -> None:
    talk = ConsumerTalk(interval_ms=1_000)
    for name in "ABCDE":
        talk.join(name)
    talk.advance(1_000)
    assert talk.group.assignment_epoch == 6
    assert sum(isinstance(fact, TargetAssigned) for fact in talk.facts) == 2


def test_the_interval_is_measured_from_the_recorded_time_and_survives_failover() -> None:
    talk = ConsumerTalk(interval_ms=1_000)
    talk.join("A")
    talk.advance(700)
    talk.failover(from_compacted=True)
    talk.join("B")
    talk.advance(299)
    assert talk.group.assignment_epoch == 2
    talk.advance(1)
    assert talk.group.assignment_epoch == 3


def test_a_groups_own_interval_goes_before_the_brokers_and_minus_one_is_the_brokers() -> None:
    talk = ConsumerTalk(interval_ms=1_000)
    talk.shard.group_configs = {"g": {"consumer.assignment.interval.ms": "0"}}
    talk.join("A")
    talk.join("B")
    assert talk.group.assignment_epoch == 3
    talk.shard.group_configs = {"g": {"consumer.assignment.interval.ms": "-1"}}
    talk.join("C")
    assert talk.group.assignment_epoch == 3


def test_a_clock_that_went_back_delays_no_assignment_for_longer_than_the_interval() -> None:
    talk = ConsumerTalk(interval_ms=1_000)
    talk.join("A")
    talk.now -= 500_000
    talk.join("B")
    talk.advance(1_000)
    assert talk.group.assignment_epoch == 3


def test_a_clock_that_went_back_and_many_changes_delay_no_assignment_for_ever() -> None:
    talk = ConsumerTalk(interval_ms=1_000)
    talk.join("A")
    talk.context.wall.offset_ms = -500_000
    for name in "BCD":
        talk.join(name)
        talk.advance(600)
    assert talk.group.assignment_epoch > 2


# -- offload


def test_until_the_first_result_a_member_has_epoch_1_and_nothing() -> None:
    talk = ConsumerTalk(in_place=False)
    answer = talk.join("A")
    assert (answer.member_epoch, answer.assignment.topic_partitions) == (1, ())
    talk.work()
    answer = talk.beat("A")
    assert answer.member_epoch == 2
    assert talk.owned("A") == [4]


def test_one_run_is_under_way_and_changes_wait_for_the_next() -> None:
    talk = ConsumerTalk(in_place=False)
    for name in "ABC":
        talk.join(name)
    assert len(talk.tasks) == 1
    first = talk.tasks[0]
    assert isinstance(first, ComputeAssignment)
    talk.work(1)
    assert talk.group.assignment_epoch == 2
    task = task_of(talk)
    assert task.base_run == first.run
    assert [row.member_id for row in task.changes.members] == ["m-B", "m-C"]


def test_a_member_that_went_during_the_run_is_dropped_from_its_result() -> None:
    talk = offloaded("A")
    talk.join("B")
    talk.leave("B")
    talk.converge("A")
    assert talk.group.targets.keys() == {"m-A"}
    assert talk.owned("A") == [4]


def test_a_static_member_replaced_during_the_run_leaves_its_share_to_its_successor() -> None:
    talk = offloaded("A=i", "B")
    talk.set_topics(a=6, b=2)
    talk.leave("A", -2)
    talk.client("A").member_id = "m-A2"
    talk.join("A", member_id="m-A2")
    assert len(talk.tasks) == 1
    talk.work()
    assert "m-A2" in talk.group.targets
    talk.converge("A", "B")
    assert talk.owned("A", "B") == [3, 3]


def test_a_static_member_that_takes_its_old_id_again_during_the_run_has_its_share() -> None:
    """A took over from B, which had taken over from A: there must be an end to that."""
    talk = offloaded("A=i", "B")
    talk.set_topics(a=6, b=2)
    for member_id in ("m-A2", "m-A"):
        talk.leave("A", -2)
        talk.client("A").member_id = member_id
        talk.join("A", member_id=member_id)
    talk.work()
    assert talk.group.targets.keys() == {"m-A", "m-B"}
    talk.converge("A", "B")
    assert talk.owned("A", "B") == [3, 3]


def test_a_late_second_or_stale_answer_is_ignored() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    answer = talk.executor.run(task_of(talk))
    talk.handle(answer)
    records = len(talk.records)
    talk.handle(answer)
    talk.handle(AssignmentComputed(group_id="g", run=-1, members=()))
    talk.handle(AssignmentComputed(group_id="nobody", run=2, members=()))
    assert len(talk.records) == records


def test_the_late_answer_to_a_run_that_was_given_up_is_not_taken_for_the_next_ones() -> None:
    """Both are of one group epoch, but the worker was told of other members in between."""
    talk = offloaded("A")
    talk.join("B")
    given_up = task_of(talk)
    talk.handle(failure(given_up, needs_whole=True))
    again = talk.tasks[0]
    assert isinstance(again, ComputeAssignment)
    assert again.run != given_up.run
    late = replace(given_up, base_run=None, changes=again.changes)
    talk.handle(talk.executor.run(late))
    assert "m-B" not in talk.group.targets
    talk.handle(failure(given_up, needs_whole=True))
    assert len(talk.tasks) == 1
    talk.converge("A", "B")
    assert talk.owned("A", "B") == [2, 2]


def test_the_run_of_a_deleted_group_is_cancelled_and_its_result_ignored() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    task = task_of(talk)
    talk.leave("A")
    talk.delete("g")
    assert any(isinstance(each, CancelAssignment) for each in talk.tasks)
    talk.tasks.clear()
    talk.handle(talk.executor.run(task))
    assert "g" not in talk.context.groups


def test_a_worker_that_has_forgotten_the_group_is_told_all_of_it() -> None:
    talk = offloaded("A", "B")
    talk.join("C")
    task = task_of(talk)
    assert task.base_run is not None
    talk.executor = type(talk.executor)(lambda: 0.0)
    talk.handle(talk.executor.run(task))
    again = talk.tasks[0]
    assert isinstance(again, ComputeAssignment)
    assert again.base_run is None
    talk.converge("A", "B", "C")
    assert sum(talk.owned("A", "B", "C")) == 4


def failure(task: ComputeAssignment, **how: bool) -> AssignmentFailed:
    return AssignmentFailed(group_id="g", run=task.run, reason="it broke", **how)


def test_a_run_whose_worker_died_is_tried_again_and_then_later() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    for _ in range(target.FAILURES_MAX):
        talk.handle(failure(task_of(talk), retriable=True))
    assert not talk.tasks
    talk.advance(target.RETRY_MS)
    assert len(talk.tasks) == 1
    talk.converge("A")
    assert talk.owned("A") == [4]


def test_without_a_worker_the_coordinator_does_it_and_says_so() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    talk.handle(failure(task_of(talk), no_worker=True))
    talk.beat("A")
    assert talk.owned("A") == [4]
    assert any(isinstance(fact, TargetAssignmentFailed) for fact in talk.facts)


def test_an_assignor_that_fails_leaves_the_old_target_until_the_group_changes() -> None:
    talk = offloaded("A")
    talk.join("B")
    talk.handle(failure(task_of(talk)))
    talk.advance(100_000 - 60_000)
    assert not talk.tasks
    assert talk.beat("A").error_code is ErrorCode.none
    assert talk.owned("A") == [4]
    talk.join("C")
    assert len(talk.tasks) == 1


def test_a_run_that_never_answers_is_given_up() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    talk.tasks.clear()
    limit_ms = target.WAIT_MAX_MS + talk.shard.configs.integer(target.TIME_LIMIT)
    began_ms = talk.now
    while talk.now < began_ms + limit_ms:
        talk.advance(20_000)
        talk.beat("A")
    assert len(talk.tasks) == 1


# -- slices


def many(count: int) -> ConsumerTalk:
    talk = ConsumerTalk(in_place=False, topics={"a": count, "b": 2})
    for number in range(count):
        talk.join(f"M{number}")
    return talk


def test_a_large_target_comes_in_slices_and_is_in_force_only_when_whole() -> None:
    count = 2 * target.SLICE_MEMBERS + 1
    talk = many(count)
    talk.work(1)
    assert talk.group.assignment_epoch == 2
    talk.handle(talk.executor.run(task_of(talk)))
    rounds = 0
    while talk.group.assignment_epoch == 2:
        assert talk.group.targets.keys() <= {"m-M0"}
        before = len(talk.records)
        deadline = talk.shard.next_deadline()
        assert deadline == talk.now
        talk.handle(TimersDue())
        assert len(talk.records) - before <= target.SLICE_MEMBERS + 1
        rounds += 1
    assert rounds == 3
    assert len(talk.group.targets) == count


def test_the_records_of_a_large_target_begin_in_a_batch_of_their_own() -> None:
    talk = many(2 * target.SLICE_MEMBERS + 1)
    talk.work(1)
    assert talk.handle(talk.executor.run(task_of(talk))).ends_batch
    assert not talk.handle(TimersDue()).ends_batch


def test_half_a_target_is_never_in_force_under_any_leader() -> None:
    count = 2 * target.SLICE_MEMBERS + 1
    for from_compacted in (False, True):
        talk = many(count)
        talk.work(1)
        talk.beat("M0")
        had = talk.client("M0").owned
        assert len(had) == count
        talk.handle(talk.executor.run(task_of(talk)))
        talk.handle(TimersDue())
        talk.failover(from_compacted=from_compacted)
        for name in ("M0", "M1"):
            assert talk.beat(name).error_code is ErrorCode.none
        assert talk.client("M0").owned == had
        talk.work()
        assert talk.group.pending_target is None
        assert len(talk.group.targets) == count
        talk.failover(from_compacted=True)
        sizes = [
            len(target.of_member(talk.context, talk.group, each))
            for each in talk.group.members.values()
        ]
        assert sizes == [1] * count


def test_a_target_whose_end_and_the_next_ones_beginning_are_one_record_is_in_force() -> None:
    talk = many(2)
    talk.work()
    group, first, second = talk.group, *talk.group.members
    values = [group.targets[each] for each in (second, first)]
    key, epoch = ConsumerGroupTargetAssignmentMetadataKey(group.group_id), group.assignment_epoch

    def metadata(assignment_epoch: int, arriving_epoch: int) -> Record:
        value = ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=assignment_epoch, assignment_timestamp=1, arriving_epoch=arriving_epoch
        )
        return Record(key, value)

    talk.shard.replay(metadata(epoch, epoch + 1))
    for member_id, value in zip((first, second), values, strict=True):
        member_key = ConsumerGroupTargetAssignmentMemberKey(group.group_id, member_id)
        talk.shard.replay(Record(member_key, value))
    talk.shard.replay(metadata(epoch + 1, epoch + 2))
    assert [group.targets[each] for each in (first, second)] == values
    assert group.pending_target is not None
    assert group.pending_target.epoch == epoch + 2


def replaying(talk: ConsumerTalk) -> tuple[GroupShard, Callable[[], None]]:
    """Have a standby, which replays a turn's records as one batch when that is appended."""
    standby = GroupShard(talk.shard.configs, image(talk.topics), random.Random(0))
    turn: dict[Any, Record] = {}
    handle = talk.handle

    def append() -> None:
        for record in turn.values():
            standby.replay(record)
        turn.clear()

    def gathering(event: Event) -> Result:
        """Gather an event's records for the turn's batch, as a partition does."""
        result = handle(event)
        for record in result.records:
            turn.pop(record.key, None)
            turn[record.key] = record
        if result.ends_batch:
            append()
        return result

    talk.handle = gathering  # type: ignore[method-assign]
    return standby, append


def step(talk: ConsumerTalk, rng: random.Random) -> None:
    """Let a member come, go or heartbeat, or what is due happen."""
    name, what = f"M{rng.randrange(7)}", rng.random()
    if what < 0.4:
        talk.handle(TimersDue())
    elif not talk.client(name).epoch:
        talk.join(name)
    elif what < 0.6:
        talk.leave(name)
    else:
        talk.beat(name)


@pytest.mark.parametrize("seed", [1, 7, 10, 49])
def test_a_standby_has_the_leaders_targets_whatever_a_turn_writes_as_one_batch(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "SLICE_MEMBERS", 2)
    rng, talk = random.Random(seed), ConsumerTalk(topics={"a": 6})
    standby, append = replaying(talk)
    for _ in range(30):
        for _ in range(rng.randint(1, 6)):
            step(talk, rng)
        append()
        if GROUP in talk.context.groups:
            told, known = talk.group, standby._context.groups[GROUP]
            assert known.assignment_epoch == told.assignment_epoch
            assert told.targets.items() <= known.targets.items()
            # A member that rejoins in one turn keeps its old target until the pending one is whole.
            assert told.targets == known.targets or told.pending_target is not None


def test_a_static_member_that_returns_while_two_targets_are_written_has_its_part_of_the_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rest of the first target is written at once, and the next run begins and ends there."""
    monkeypatch.setattr(target, "SLICE_MEMBERS", 2)
    talk = ConsumerTalk(topics={"a": 12})
    for name in ("S=s", "M0"):
        talk.join(name)
    talk.converge("S", "M0")
    talk.join("M1")
    assert talk.group.pending_target is not None
    talk.join("M2")
    talk.leave("S", epoch=-2)
    before = talk.client("S").member_id
    talk.join("S", member_id="again")
    assert talk.client("S").member_id != before
    assert talk.group.pending_target is not None
    while talk.group.pending_target is not None:
        talk.handle(TimersDue())
    members = talk.group.members.values()
    assigned = [each for one in members for each in target.of_member(talk.context, talk.group, one)]
    assert len(assigned) == len(set(assigned)) == 12
    talk.converge("S", "M0", "M1", "M2")
    assert talk.owned("S", "M0", "M1", "M2") == [3, 3, 3, 3]
