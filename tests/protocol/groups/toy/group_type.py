"""The value of the toy group type, and what only this type does: its request, record and timer."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.share_group_describe.v1.response import DescribedGroup, ShareGroupDescribeResponse
from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from kio.schema.share_group_heartbeat.v1.response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

from protocol.groups.facts import MemberEventKind
from protocol.groups.group_type import GroupSummary, GroupType, OffsetPolicy
from protocol.groups.modern import group as modern
from protocol.groups.modern import leave, members, steps
from protocol.groups.modern.replay import Replays
from protocol.groups.topic_numbers import by_topic
from protocol.records import (
    Record,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode, KafkaError
from tests.protocol.groups.toy.group import ToyGroup, member_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.timers import TimerKey

HEARTBEAT, DESCRIBE = ShareGroupHeartbeatRequest.__api_key__, ShareGroupDescribeRequest.__api_key__
NAP = "toy-nap"
"""A kind of timer that only this type has."""
NAP_MS = 500


def heartbeat(ctx: Context, request: Request, now: int) -> None:
    message: Any = request.message
    group_id, member_id, epoch = message.group_id, message.member_id, message.member_epoch
    group = members.find_group(ctx, ToyGroup, group_id, may_make=epoch == 0)
    if epoch == -1:
        assert group is not None
        runtime = modern.find(ctx, group_id, now)
        assert runtime is not None
        gone = {group.member(member_id).member_id: None}
        leave.remove(ctx, runtime, gone, MemberEventKind.LEFT, now)
        ctx.reply(request.ticket, answer(member_id, -1, 0, None), group_id)
        return
    if group is not None and member_id not in group.members:
        if epoch:
            raise KafkaError(ErrorCode.unknown_member_id)
        members.check_room(ctx, group)
    known = None if group is None else group.members.get(member_id)
    topics = message.subscribed_topic_names
    if topics is None:
        topics = known.metadata.subscribed_topic_names if known is not None else ()
    said = member_record(request.client.client_id, request.client.host, tuple(sorted(topics)))
    heartbeat_input = steps.HeartbeatInput(group_id, member_id, said, lambda: None)
    runtime, member, before = steps.process_heartbeat(ctx, ToyGroup, heartbeat_input, now)
    ctx.timers.set(NAP, group_id, "", now + NAP_MS)
    interval_ms = steps.renew_session(ctx, runtime, member, now)
    assignment = member.assignment
    given = None
    if epoch == 0 or before.assigned != assignment.assigned:
        given = Assignment(
            topic_partitions=tuple(
                TopicPartitions(topic_id=ctx.numbers.uuids[topic], partitions=tuple(indexes))
                for topic, indexes in by_topic(assignment.assigned)
            )
        )
    ctx.reply(request.ticket, answer(member_id, assignment.epoch, interval_ms, given), group_id)


def answer(
    member_id: str, epoch: int, interval_ms: int, given: Assignment | None
) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        error_message=None,
        member_id=member_id,
        member_epoch=epoch,
        heartbeat_interval=timedelta(milliseconds=interval_ms),
        assignment=given,
    )


def describe(ctx: Context, request: Request, now: int) -> None:
    message: Any = request.message
    groups = [ctx.groups[group_id] for group_id in message.group_ids]
    described = [
        blank(
            DescribedGroup, group_id=each.group_id, group_state=each.state, group_epoch=each.epoch
        )
        for each in groups
        if isinstance(each, ToyGroup)
    ]
    response = blank(ShareGroupDescribeResponse, groups=tuple(described))
    ctx.reply(request.ticket, response, None)


def nap(ctx: Context, key: TimerKey, now: int) -> None:
    """Write the record that only this type has."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=(), initialized_topics=(), deleting_topics=()
    )
    ctx.emit(Record(ShareGroupStatePartitionMetadataKey(key.group_id), value))


def replay_nap(ctx: Context, key: ShareGroupStatePartitionMetadataKey, value: Any) -> None:
    group = ctx.groups.get(key.group_id)
    if isinstance(group, ToyGroup) and value is not None:
        group.naps.append(1)


def delete(ctx: Context, group_id: str, now: int) -> None:
    ctx.emit(Record(ShareGroupStatePartitionMetadataKey(group_id), None))
    ctx.timers.cancel(NAP, group_id, "")
    modern.delete(ctx, group_id, now)


def no_offsets(*_: Any) -> None:
    raise KafkaError(ErrorCode.group_id_not_found)


def broken(ctx: Context) -> Iterator[str]:
    for group_id, group in ctx.groups.items():
        if isinstance(group, ToyGroup) and group.holders:
            yield f"{group_id}: a partition of a toy group has a holder of its own"


TOY = GroupType(
    name=ToyGroup.type_name,
    handlers={HEARTBEAT: heartbeat, DESCRIBE: describe},
    replays={
        **Replays(ToyGroup).table(),
        ShareGroupStatePartitionMetadataKey: replay_nap,
    },
    timeouts={NAP: nap},
    broken=broken,
    offsets=OffsetPolicy(
        check_commit=no_offsets,
        check_fetch=no_offsets,
        check_delete=no_offsets,
        subscribed_topics=lambda ctx, group_id: frozenset(),
        is_subscribed=lambda ctx, group_id, topic: False,
        retention_start=lambda ctx, group_id: None,
    ),
    summary=lambda ctx, group_id: GroupSummary("toy", toy(ctx, group_id).state, "toy"),
    is_abandoned=lambda ctx, group_id: not ctx.groups[group_id].has_members,
    delete=delete,
    build=modern.build,
    restore=modern.restore,
)


def toy(ctx: Context, group_id: str) -> ToyGroup:
    group = ctx.groups[group_id]
    assert isinstance(group, ToyGroup)
    return group
