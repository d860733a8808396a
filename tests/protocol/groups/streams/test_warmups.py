"""Warm-up tasks in conversations: a task moves once its new owner has caught up."""

from collections.abc import Mapping
from typing import Any

import pytest

from protocol.groups.modern.form import ROLE_SHIFT
from protocol.groups.modern.hard_state import ModernGroupState
from protocol.groups.streams.task_numbers import TASK_MASK
from protocol.groups.streams.warming import warmups
from protocol.groups.streams.warming.task_index import WARMUP, PlannedMember
from protocol.records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupTargetAssignmentMemberKey,
)
from protocol.wire import streams_messages as m
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.streams.streams_talk import StreamsTalk, task_ids, tasks

ONE_STANDBY = {"group.streams.num.standby.replicas": "1"}
END = 50_000


def at(offset: int, *indexes: int) -> dict[str, Any]:
    """Return the fields that report an offset, and the end, for tasks of subtopology 0."""

    def told(value: int) -> tuple[m.OwnedTaskOffset, ...]:
        return tuple(
            m.OwnedTaskOffset(subtopology_id="0", partition=each, offset=value) for each in indexes
        )

    return {"task_offsets": told(offset), "task_end_offsets": told(END)}


def told(answer: Any) -> tuple[int, str | None, str | None, str | None]:
    """Return epoch, active, standby and warm-up tasks of an answer."""
    assert answer.error_code is ErrorCode.none, answer
    return (
        answer.member_epoch,
        tasks(answer.active_tasks),
        tasks(answer.standby_tasks),
        tasks(answer.warmup_tasks),
    )


def warming(configs: Mapping[str, str] | None = None, **more: Any) -> StreamsTalk:
    """Let A run tasks 0, 1 and 2, and B join: task 2 is to move to B."""
    talk = StreamsTalk(dict(configs or {}), version=1, **more)
    assert told(talk.join("A")) == (2, "0:012", "", "")
    assert told(talk.join("B"))[1:] == ("", "", "0:2")
    talk.beat("A")
    return talk


def reports(talk: StreamsTalk, name: str, active: str, warmup: str, **more: Any) -> Any:
    """Heartbeat with all tasks that a member has."""
    return talk.beat(
        name,
        active_tasks=task_ids(active),
        standby_tasks=(),
        warmup_tasks=task_ids(warmup),
        **more,
    )


def test_a_task_moves_once_its_new_owner_has_caught_up() -> None:
    talk = warming()
    assert talk.group.state == ModernGroupState.STABLE
    epoch = talk.group.epoch
    assert told(talk.beat("B", **at(0, 2))) == (epoch, None, None, None)
    assert told(talk.beat("B", **at(END - 10_001, 2))) == (epoch, None, None, None)
    assert talk.group.epoch == epoch
    records = len(talk.records)
    talk.beat("B", **at(END - 10_000, 2))
    assert talk.group.epoch == talk.group.assignment_epoch == epoch + 1
    targets = [each for each in talk.records[records:]
               if isinstance(each.key, StreamsGroupTargetAssignmentMemberKey)]  # fmt: skip
    assert not targets, "a step needs no run of the assignor"
    assert told(talk.beat("B")) == (epoch + 1, None, None, None)  # the warm-up stays meanwhile
    assert told(talk.beat("A")) == (epoch, "0:01", "", "")
    assert told(reports(talk, "A", "0:01", "")) == (epoch + 1, None, None, None)
    assert told(talk.beat("B")) == (epoch + 1, "0:2", "", "")
    assert talk.group.state == ModernGroupState.STABLE
    talk.beat("B", task_offsets=(), task_end_offsets=())
    assert talk.group.epoch == epoch + 1


def test_the_target_that_is_described_is_the_final_one() -> None:
    members = {each.member_id: each for each in warming().describe().members}
    assert [tasks(each.target_assignment.active_tasks) for each in members.values()] == [
        "0:01", "0:2",
    ]  # fmt: skip
    assert tasks(members["A"].assignment.active_tasks) == "0:012"
    assert tasks(members["B"].assignment.warmup_tasks) == "0:2"


def test_without_warmup_replicas_a_task_moves_at_once() -> None:
    talk = StreamsTalk({"group.streams.num.warmup.replicas": "0"}, version=1)
    talk.join("A")
    talk.join("B")
    assert told(talk.beat("A"))[1:] == ("0:01", "", "")
    talk.owning("A", "0:01")
    assert told(talk.beat("B"))[1:] == ("0:2", "", "")


def test_the_number_of_replicas_may_change_meanwhile() -> None:
    talk = warming()
    talk.shard.group_configs = {GROUP: {"streams.num.warmup.replicas": "0"}}
    talk.beat("A")
    assert told(talk.beat("A"))[1:] == ("0:01", "", "")


def test_a_member_of_version_0_is_not_waited_for() -> None:
    talk = StreamsTalk(version=1)
    talk.join("A")
    talk.version = 0
    assert told(talk.join("B"))[1:] == ("", "", "")
    assert told(talk.beat("A"))[1:] == ("0:01", "", "")


@pytest.mark.parametrize("said", [{}, {"task_offsets": at(0, 2)["task_offsets"]}])
def test_a_member_that_never_says_how_far_it_is_is_not_waited_for_forever(
    said: dict[str, Any],
) -> None:
    talk = warming()
    epoch = talk.group.epoch
    for _ in range(3 * 6):
        assert talk.group.epoch == epoch
        talk.advance(10_000)
        talk.beat("A")
        talk.beat("B", **said)
    assert talk.group.epoch == epoch + 1
    assert told(talk.beat("A"))[1:] == ("0:01", "", "")
    reports(talk, "A", "0:01", "")
    assert told(talk.beat("B"))[1:] == ("0:2", "", "")


def test_a_member_that_says_that_it_is_far_behind_is_waited_for() -> None:
    talk = warming()
    epoch = talk.group.epoch
    talk.beat("B", **at(0, 2))
    for _ in range(60):
        talk.advance(10_000)
        talk.beat("A")
        talk.beat("B")
    assert talk.group.epoch == epoch


def test_a_task_stays_with_its_old_owner_if_the_new_one_leaves() -> None:
    talk = warming()
    talk.leave("B")
    talk.beat("A")
    assert tasks(talk.describe().members[0].assignment.active_tasks) == "0:012"


def test_the_owner_dies_meanwhile() -> None:
    talk = warming()
    talk.leave("A")
    assert told(talk.beat("B"))[1:] == ("0:012", "", "")


def test_a_new_leader_waits_until_it_is_told_again() -> None:
    talk = warming()
    epoch = talk.group.epoch
    talk.beat("B", **at(0, 2))
    talk.failover()
    talk.beat("A")
    talk.beat("B")
    assert talk.group.epoch == epoch
    assert told(talk.beat("A")) == (epoch, None, None, None)
    talk.beat("B", **at(END, 2))
    assert talk.group.epoch == epoch + 1


@pytest.mark.parametrize("first", ["A", "B"])
def test_a_new_leader_ends_a_step_that_was_begun(first: str) -> None:
    """The old leader let the task move; the new one knows no offsets."""
    talk = warming()
    talk.beat("B", **at(END, 2))
    talk.beat("A")  # it has to give up task 2
    talk.failover()
    for _ in range(3):
        for name in (first, "A", "B"):
            assigned = talk.group.members[name].assignment.assigned
            active = "0:" + "".join(str(each & 9) for each in sorted(assigned)
                                    if not each >> ROLE_SHIFT)  # fmt: skip
            warm = "0:2" if any(each & WARMUP for each in assigned) else ""
            reports(talk, name, "" if active == "0:" else active, warm)
    by_member = {each.member_id: each for each in talk.describe().members}
    assert tasks(by_member["A"].assignment.active_tasks) == "0:01"
    assert tasks(by_member["B"].assignment.active_tasks) == "0:2"


def test_a_static_member_that_restarts_goes_on_warming_up() -> None:
    talk = StreamsTalk(version=1)
    talk.join("A")
    talk.client("B=b")
    talk.join("B")
    talk.beat("A")
    talk.leave("B", -2)
    talk.client("B2=b")
    assert told(talk.join("B2", process_id="p-B"))[1:] == ("", "", "0:2")


def test_not_more_warmups_than_replicas() -> None:
    talk = StreamsTalk(
        {"group.streams.num.warmup.replicas": "1"},
        topics={"in": 6, "store-changelog": 6},
        version=1,
    )
    talk.join("A")
    talk.join("B")
    talk.beat("A")
    given: list[str | None] = []
    for _ in range(3):
        held = talk.describe().members[1].assignment.warmup_tasks
        given.append(tasks(held))
        (index,) = held[0].partitions
        talk.beat("B", **at(END, index))
        talk.beat("A")
        owned = sorted(each for each in talk.group.members["A"].assignment.assigned)
        reports(talk, "A", "0:" + "".join(str(each & 9) for each in owned), "")
        talk.beat("B", task_offsets=(), task_end_offsets=())
        talk.beat("A")
        talk.beat("B")
    assert len(set(given)) == 3
    assert talk.describe().members[1].assignment.warmup_tasks == ()
    assert talk.group.state == ModernGroupState.STABLE


def test_warmups_are_in_the_log_as_kafka_writes_them() -> None:
    talk = warming()
    (last,) = [
        each
        for each in talk.written(StreamsGroupCurrentMemberAssignmentKey)
        if each is not None and each.warmup_tasks
    ][-1:]
    assert [(each.subtopology_id, each.partitions) for each in last.warmup_tasks] == [("0", (2,))]


def test_warmups_that_the_topology_does_not_have_are_refused() -> None:
    answer = reports(warming(), "B", "", "0:7")
    assert answer.error_code is ErrorCode.invalid_request


def reports_what_it_has(talk: StreamsTalk, name: str) -> Any:
    """Heartbeat as a member does that has started what it was given."""
    assigned = sorted(talk.group.members[name].assignment.assigned)
    active, warmup = (
        "".join(str(each & 9) for each in assigned if each & ~TASK_MASK == role)
        for role in (0, WARMUP)
    )
    return reports(talk, name, active and f"0:{active}", warmup and f"0:{warmup}")


def test_members_of_a_large_group_wait_until_the_tasks_of_all_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here the tasks of one member are too many for a turn."""
    monkeypatch.setattr(warmups, "TASKS_AT_ONCE", 1)
    talk = StreamsTalk(version=1)
    assert told(talk.join("A")) == (2, "0:012", "", "")
    assert told(talk.join("B")) == (3, "", "", "")
    assert told(talk.beat("B")) == (3, "", "", "0:2")
    assert told(talk.beat("A")) == (3, None, None, None)
    assert talk.group.state == ModernGroupState.STABLE
    talk.beat("B", **at(END, 2))
    for name in ("A", "B", "A", "B"):
        reports_what_it_has(talk, name)
    members = {each.member_id: each for each in talk.describe().members}
    assert [tasks(each.assignment.active_tasks) for each in members.values()] == ["0:01", "0:2"]


def test_a_member_is_looked_at_again_if_its_target_or_assignment_is_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[str] = []

    def counted(member_id: str, *rest: Any, **more: Any) -> PlannedMember:
        looked_at.append(member_id)
        return PlannedMember(member_id, *rest, **more)

    names = [f"m{number}" for number in range(30)]
    talk = StreamsTalk(version=1)
    for name in names:
        talk.join(name)
    for name in names * 2:
        reports_what_it_has(talk, name)
    monkeypatch.setattr(warmups, "PlannedMember", counted)
    talk.join("idle")  # all tasks have owners
    for name in names * 2:
        reports_what_it_has(talk, name)
    assert set(looked_at) == {"idle"}


def test_no_tasks_are_looked_at_if_no_member_can_report_offsets() -> None:
    talk = StreamsTalk()
    for name in ("A", "B", "A", "B"):
        talk.join(name)
    assert not talk.context.modern_runtime[GROUP].own.index.members
