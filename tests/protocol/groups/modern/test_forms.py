"""What one member may hold beside another: shared partitions and tasks (KIP-932, KIP-1071)."""

from dataclasses import replace
from typing import ClassVar

from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.consumer.records import UNKNOWN_MEMBER
from protocol.groups.modern.form import SHARED, TASKS, TaskRole, role_of, task_unit
from protocol.groups.modern.kind import ModernKind
from protocol.groups.modern.reconcile import (
    MemberAssignment,
    MemberState,
    ReconcileInput,
    reconcile,
)
from protocol.groups.topic_numbers import TOPIC_SHIFT, by_topic

KIND = ConsumerGroup.kind


def kind_of(form) -> ModernKind:
    return ModernKind(configs=KIND.configs, codec=KIND.codec, form=form)


class TaskGroup(ConsumerGroup):
    kind: ClassVar[ModernKind] = kind_of(TASKS)


class SharedGroup(ConsumerGroup):
    kind: ClassVar[ModernKind] = kind_of(SHARED)


def task(role: TaskRole, subtopology: int, index: int) -> int:
    return task_unit(role, subtopology) << TOPIC_SHIFT | index


def holding(*places: int, epoch: int = 2) -> MemberAssignment:
    return MemberAssignment(epoch, epoch, MemberState.STABLE, dict.fromkeys(places, epoch), {})


def step(group: ConsumerGroup, member_id: str, target: set[int], owned: set[int] | None) -> None:
    member = group.members[member_id]
    wish = ReconcileInput(
        epoch=3,
        target=target,
        owned=owned,
        is_subscribed=lambda unit: True,
        is_free=lambda place: group.holders.get(place, member_id) == member_id,
    )
    group.put_assignment(member, reconcile(member.assignment, wish))


def group_of(group: ConsumerGroup, **holds: MemberAssignment) -> ConsumerGroup:
    for member_id, assignment in holds.items():
        group.put_member(member_id, replace(UNKNOWN_MEMBER))
        group.put_assignment(group.members[member_id], assignment)
    return group


def test_a_task_is_a_role_a_subtopology_and_a_partition() -> None:
    for role in TaskRole:
        place = task(role, 5, 7)
        assert role_of(place) is role
        assert [*by_topic([place])] == [(task_unit(role, 5), [7])]
    assert len({task(role, 1, 1) for role in TaskRole}) == 3


def test_an_active_task_waits_for_its_holder_and_a_standby_does_not() -> None:
    active, standby = task(TaskRole.ACTIVE, 0, 1), task(TaskRole.STANDBY, 0, 1)
    group = group_of(TaskGroup("g"), a=holding(active, standby), b=holding())
    assert group.holders == {active: "a"}

    step(group, "b", {active, standby}, set())
    assert group.members["b"].assignment.assigned.keys() == {standby}
    assert group.members["b"].assignment.state is MemberState.UNRELEASED_PARTITIONS

    step(group, "a", {standby}, {active, standby})
    assert group.members["a"].assignment.state is MemberState.UNREVOKED_PARTITIONS
    step(group, "a", {standby}, {standby})
    assert group.holders == {}

    step(group, "b", {active, standby}, {standby})
    assert group.members["b"].assignment.assigned.keys() == {active, standby}
    assert group.holders == {active: "b"}


def test_a_task_changes_its_role_on_one_member() -> None:
    active, warmup = task(TaskRole.ACTIVE, 0, 1), task(TaskRole.WARMUP, 0, 1)
    group = group_of(TaskGroup("g"), a=holding(warmup))
    step(group, "a", {active}, set())
    assert group.members["a"].assignment.assigned.keys() == {active}


def test_shared_partitions_have_any_number_of_owners_and_nobody_waits() -> None:
    group = group_of(SharedGroup("g"), a=holding(1, 2), b=holding())
    step(group, "b", {1, 2}, set())
    step(group, "a", {2, 3}, set())
    assert group.members["a"].assignment.assigned.keys() == {2, 3}
    assert group.members["b"].assignment.assigned.keys() == {1, 2}
    assert group.holders == {}
