"""What becomes of a group when a run of its assignor fails, or is to be done in place."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.assignors import registry
from protocol.groups.effects import AssignmentComputed, AssignmentFailed, ComputeAssignment
from protocol.groups.facts import MemberEventKind, TargetAssigned, TargetAssignmentFailed
from protocol.groups.modern.target import RETRY_MS
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.conversation import GROUP

CUSTOM = {"group.consumer.assignors": "own,uniform"}


def failure(talk: ConsumerTalk, **how: Any) -> AssignmentFailed:
    return AssignmentFailed(group_id=GROUP, run=talk.context.last_run, reason="it broke", **how)


def computed(talk: ConsumerTalk) -> AssignmentComputed:
    return AssignmentComputed(group_id=GROUP, run=talk.context.last_run, members=())


def test_a_run_whose_worker_died_is_asked_for_again_whole() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    talk.converge("A")
    talk.join("B")
    talk.tasks.popleft()
    talk.handle(failure(talk, retriable=True))
    again = talk.tasks[-1]
    assert isinstance(again, ComputeAssignment)
    assert again.base_run is None
    assert {row.member_id for row in again.changes.members} == {"m-A", "m-B"}
    talk.converge("A", "B")
    assert sorted(talk.owned("A", "B")) == [2, 2]


def test_a_run_that_fails_three_times_in_a_row_waits() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    for _ in range(3):
        assert talk.tasks
        talk.tasks.clear()
        talk.handle(failure(talk, retriable=True))
    talk.beat("A")
    assert not talk.tasks, "nor does a heartbeat begin one"
    talk.advance(RETRY_MS)
    assert talk.tasks
    talk.converge("A")
    assert talk.owned("A") == [4]


def test_without_a_worker_the_run_is_done_in_place() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    talk.tasks.clear()
    talk.handle(failure(talk, no_worker=True))
    assert not talk.tasks
    [made] = [fact for fact in talk.facts if isinstance(fact, TargetAssigned)]
    assert made.in_place
    assert talk.beat("A").member_epoch == talk.group.epoch
    assert talk.owned("A") == [4]


def test_a_custom_assignor_runs_in_workers_even_if_runs_are_not_offloaded() -> None:
    talk = ConsumerTalk(in_place=True, overrides=CUSTOM)
    talk.join("A")
    assert [task.assignor for task in talk.tasks if isinstance(task, ComputeAssignment)] == ["own"]


def test_a_custom_assignor_waits_for_a_worker_when_there_is_none() -> None:
    talk = ConsumerTalk(in_place=False, overrides=CUSTOM)
    talk.join("A")
    talk.tasks.clear()
    talk.handle(failure(talk, no_worker=True))
    assert not talk.tasks
    assert talk.context.executor is None, "nothing was run here"
    talk.advance(RETRY_MS)
    assert len(talk.tasks) == 1


def test_a_custom_assignor_that_costs_three_workers_is_not_tried_again() -> None:
    talk = ConsumerTalk(in_place=False, overrides=CUSTOM)
    talk.join("A")
    for _ in range(3):
        assert talk.tasks.popleft()
        talk.handle(failure(talk, retriable=True))
    talk.advance(10_000)
    assert not talk.tasks
    unmade = [fact.is_final for fact in talk.facts if isinstance(fact, TargetAssignmentFailed)]
    assert unmade == [False, False, True]


def test_after_a_failed_run_the_old_target_stays_until_the_group_changes() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    talk.converge("A")
    before = dict(talk.group.targets)
    talk.join("B")
    talk.tasks.clear()
    talk.handle(failure(talk))
    talk.advance(20_000)
    assert not talk.tasks
    assert talk.group.targets == before
    talk.beat("A")
    assert talk.owned("A", "B") == [4, 0]
    unmade = [fact for fact in talk.facts if isinstance(fact, TargetAssignmentFailed)]
    assert [(fact.reason, fact.is_final) for fact in unmade] == [("it broke", True)]
    [told] = [
        event for event in talk.shard.events(GROUP) if event.kind is MemberEventKind.NOT_ASSIGNED
    ]
    assert told.reason == "it broke"
    talk.join("C")
    talk.converge("A", "B", "C")
    assert sorted(talk.owned("A", "B", "C")) == [1, 1, 2]


def test_answers_that_come_late_or_twice_are_ignored() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    late = computed(talk)
    talk.converge("A")
    epoch = talk.group.assignment_epoch
    records = len(talk.records)
    for answer in (late, computed(talk), failure(talk), failure(talk, retriable=True)):
        talk.handle(answer)
    assert len(talk.records) == records
    assert talk.group.assignment_epoch == epoch
    assert not talk.tasks


@pytest.mark.parametrize("is_late", [False, True])
def test_answers_about_groups_that_are_gone_are_ignored(is_late: bool) -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    answer = computed(talk) if is_late else failure(talk)
    talk.failover()
    records = len(talk.records)
    talk.handle(answer)
    assert len(talk.records) == records


def test_the_assignors_that_may_run_in_place_are_the_built_in_ones() -> None:
    from protocol.groups.modern.target import may_run_here

    assert all(may_run_here(name) for name in registry.BUILT_IN)
    assert not may_run_here("own")
