"""A second toy type, whose members get tasks: active ones of one member, standbys of any number.

It has one subtopology and no topology. To its assignor the active tasks are the partitions of the
topic ``t``, and the standbys those of ``t-standby``; its records name tasks in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from kio.schema.streams_group_heartbeat.v0.request import StreamsGroupHeartbeatRequest
from kio.schema.streams_group_heartbeat.v0.response import StreamsGroupHeartbeatResponse, TaskIds

from protocol.groups.modern import group as modern
from protocol.groups.modern import members, steps
from protocol.groups.modern.assignment_records import CurrentAssignment
from protocol.groups.modern.assignment_records import read_target as read_partitions
from protocol.groups.modern.form import TASKS, TaskRole, role_of, task_unit
from protocol.groups.modern.hard_state import ModernGroup, ModernGroupMember
from protocol.groups.modern.kind import ModernKind
from protocol.groups.modern.replay import Replays
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT, TopicNumbers
from protocol.records import (
    ShareGroupCurrentMemberAssignmentValue,
    TargetTopicPartitions,
    encode_value,
)
from protocol.wire.convert import blank
from protocol.wire.readers import decoder
from tests.protocol.groups.conversation import topic_id
from tests.protocol.groups.toy.group import CURRENT_KEY, KIND, member_record
from tests.protocol.groups.toy.group_type import TOY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.context import Context
    from protocol.groups.effects import Request

HEARTBEAT = StreamsGroupHeartbeatRequest.__api_key__
TOPICS = ("t", "t-standby")
HELD = {topic_id("t"): TaskRole.ACTIVE, topic_id("t-standby"): TaskRole.STANDBY}
REVOKING = {topic_id("t-gives-up"): TaskRole.ACTIVE, topic_id("t-standby-gives"): TaskRole.STANDBY}
SUBTOPOLOGY = "0"


def place(role: TaskRole, index: int) -> int:
    return task_unit(role, 0) << TOPIC_SHIFT | index


def read_target(data: bytes, _numbers: Any) -> frozenset[int]:
    numbers = TopicNumbers()
    return frozenset(
        place(HELD[numbers.uuids[each >> TOPIC_SHIFT]], each & INDEX_MASK)
        for each in read_partitions(data, numbers)
    )


def write_current(current: CurrentAssignment, _numbers: Any, _owned: bytes | None = None) -> bytes:
    rows = [
        TargetTopicPartitions(topic_id=topic, partitions=tuple(indexes_of(places, role)))
        for topics, places in ((HELD, current.assigned), (REVOKING, current.revoking))
        for topic, role in topics.items()
    ]
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=current.member_epoch,
        previous_member_epoch=current.previous_member_epoch,
        state=current.state,
        assigned_partitions=tuple(rows),
    )
    encoded = encode_value(CURRENT_KEY, value)
    assert encoded is not None
    return encoded


def read_current(data: bytes, _numbers: Any) -> CurrentAssignment:
    value: Any = decoder(ShareGroupCurrentMemberAssignmentValue)(data, 2)
    assigned, revoking = (
        {
            place(topics[topic.topic_id], index): 0
            for topic in value.assigned_partitions
            if topic.topic_id in topics
            for index in topic.partitions
        }
        for topics in (HELD, REVOKING)
    )
    return CurrentAssignment(
        value.member_epoch, value.previous_member_epoch, value.state, assigned, revoking
    )


def indexes_of(places: Iterable[int], role: TaskRole) -> list[int]:
    return sorted(each & INDEX_MASK for each in places if role_of(each) is role)


class TaskMember(ModernGroupMember):
    @property
    def rebalance_timeout_ms(self) -> int:
        return 60_000


@dataclass(slots=True, eq=False, repr=False)
class TaskGroup(ModernGroup[TaskMember]):
    type_name: ClassVar[str] = "task toy"
    member_class: ClassVar[type[Any]] = TaskMember
    kind: ClassVar[ModernKind] = replace(
        KIND,
        form=TASKS,
        codec=replace(
            KIND.codec,
            read_target=read_target,
            read_current=read_current,
            write_current=write_current,
        ),
    )


def heartbeat(ctx: Context, request: Request, now: int) -> None:
    message: Any = request.message
    group_id, member_id = message.group_id, message.member_id
    members.find_group(ctx, TaskGroup, group_id, may_make=message.member_epoch == 0)
    said = member_record(request.client.client_id, request.client.host, TOPICS)
    heartbeat_input = steps.HeartbeatInput(group_id, member_id, said, lambda: owned(message))
    runtime, member, _ = steps.process_heartbeat(ctx, TaskGroup, heartbeat_input, now)
    steps.renew_session(ctx, runtime, member, now)
    active, standby = (
        (TaskIds(subtopology_id=SUBTOPOLOGY, partitions=tuple(indexes)),)
        for indexes in (indexes_of(member.assignment.assigned, role) for role in HELD.values())
    )
    response = blank(
        StreamsGroupHeartbeatResponse,
        member_id=member_id,
        member_epoch=member.assignment.epoch,
        active_tasks=active,
        standby_tasks=standby,
    )
    ctx.reply(request.ticket, response, group_id)


def owned(message: Any) -> set[int] | None:
    if message.active_tasks is None:
        return None
    owned_tasks = (
        (TaskRole.ACTIVE, message.active_tasks),
        (TaskRole.STANDBY, message.standby_tasks or ()),
    )
    return {
        place(role, index)
        for role, tasks in owned_tasks
        for each in tasks
        for index in each.partitions
    }


TASK_TOY = replace(
    TOY,
    name=TaskGroup.type_name,
    handlers={HEARTBEAT: heartbeat},
    replays=Replays(TaskGroup).table(),
    timeouts={},
    broken=None,
    delete=modern.delete,
)
