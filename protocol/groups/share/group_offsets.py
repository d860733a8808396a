"""Share groups' offsets, for administrators: Describe-, Alter- and DeleteShareGroupOffsets.

The offsets of a share group are the start offsets in its share state. They can be altered and
deleted only while the group is empty. No partition holds records here: each log ends at 0, and a
start offset from elsewhere is beyond it, with a lag below 0, as Kafka reckons.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.modern import members as modern_members
from protocol.groups.share import initialization, persister
from protocol.groups.share.group import ShareGroup
from protocol.groups.share.requests import check_served
from protocol.groups.share.state_topics import StateTopic
from protocol.groups.share_state import store
from protocol.groups.share_state.store import NO_COUNT, NO_START_OFFSET, SharePartition
from protocol.wire import messages as m
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from uuid import UUID

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.topics import Topic

END_OFFSET: Final = 0
NO_LAG: Final = -1
NOT_EMPTY: Final = "The group is not empty."


# --- describe


def describe(ctx: Context, request: Request, now: int) -> None:  # noqa: ARG001 - as every handler
    """Return start offsets; -1 where there is none, whatever the reason."""
    message = request.message
    assert isinstance(message, m.DescribeShareGroupOffsetsRequest)
    check_served(ctx)
    groups = tuple(_described(ctx, asked) for asked in message.groups)
    ctx.reply(request.ticket, blank(m.DescribeShareGroupOffsetsResponse, groups=groups), None)


def _described(
    ctx: Context, asked: m.DescribeShareGroupOffsetsRequestGroup
) -> m.DescribeShareGroupOffsetsResponseGroup:
    group_id = asked.group_id
    if asked.topics is None:
        topics = [
            _described_topic(ctx, group_id, topic, indexes)
            for topic, indexes in _initialized(ctx, group_id)
        ]
    else:
        named = [(ctx.topics.by_name(each.topic_name), each) for each in asked.topics]
        topics = [
            _described_topic(ctx, group_id, topic, each.partitions)
            for topic, each in named
            if topic is not None
        ]
        topics += [_unknown_topic(each) for topic, each in named if topic is None]
    return blank(
        m.DescribeShareGroupOffsetsResponseGroup,
        group_id=group_id,
        error_code=ErrorCode.none,
        topics=tuple(topics),
    )


def _initialized(ctx: Context, group_id: str) -> Iterable[tuple[Topic, list[int]]]:
    """Return the partitions with share state of a group, by topic; nothing for another group."""
    group = ctx.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return
    for topic_id, state in group.state_topics.initialized.items():
        topic = ctx.topics.by_id(topic_id)
        if topic is not None:
            yield topic, sorted(state.partitions)


def _described_topic(
    ctx: Context, group_id: str, topic: Topic, indexes: Iterable[int]
) -> m.DescribeShareGroupOffsetsResponseTopic:
    return m.DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            _described_partition(ctx, SharePartition(group_id, topic.topic_id, index))
            for index in indexes
        ),
    )


def _described_partition(
    ctx: Context, share: SharePartition
) -> m.DescribeShareGroupOffsetsResponsePartition:
    try:
        found = store.summary(ctx, share)
    except KafkaError:
        found = store.NO_STATE
    is_known = found.start_offset != NO_START_OFFSET and found.delivery_complete_count != NO_COUNT
    return m.DescribeShareGroupOffsetsResponsePartition(
        partition_index=share.partition,
        start_offset=found.start_offset,
        leader_epoch=found.leader_epoch,
        lag=END_OFFSET - found.start_offset - found.delivery_complete_count if is_known else NO_LAG,
        error_code=ErrorCode.none,
        error_message=None,
    )


def _unknown_topic(
    asked: m.DescribeShareGroupOffsetsRequestTopic,
) -> m.DescribeShareGroupOffsetsResponseTopic:
    return m.DescribeShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        topic_id=None,
        partitions=tuple(
            m.DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=NO_START_OFFSET,
                leader_epoch=0,
                lag=NO_LAG,
                error_code=ErrorCode.none,
                error_message=None,
            )
            for index in asked.partitions
        ),
    )


# --- alter


def alter(ctx: Context, request: Request, now: int) -> None:
    """Set start offsets of an empty group, which is created if there is none."""
    message = request.message
    assert isinstance(message, m.AlterShareGroupOffsetsRequest)
    check_served(ctx)
    group_id = message.group_id
    group = modern_members.find_group(ctx, ShareGroup, group_id, may_make=True)
    if group is not None and group.members:
        raise KafkaError(ErrorCode.non_empty_group, NOT_EMPTY)
    known = group or ShareGroup(group_id)
    done: dict[UUID, StateTopic] = {}
    responses = []
    for asked in message.topics:
        topic = ctx.topics.by_name(asked.topic_name)
        topic_id = None if topic is None else topic.topic_id
        partitions = []
        for each in asked.partitions:
            share = SharePartition(group_id, topic_id, each.partition_index)
            error = _altered(ctx, share, known.epoch, each.start_offset, now)
            if error is None and topic is not None:
                before = done.get(topic.topic_id, StateTopic(topic.name, frozenset()))
                altered = before.partitions | {each.partition_index}
                done[topic.topic_id] = before._replace(partitions=altered)
            partitions.append(
                m.AlterShareGroupOffsetsResponsePartition(
                    partition_index=each.partition_index,
                    error_code=ErrorCode.none if error is None else error.code,
                    error_message=None if error is None else error.message,
                )
            )
        responses.append(
            m.AlterShareGroupOffsetsResponseTopic(
                topic_name=asked.topic_name, topic_id=topic_id, partitions=tuple(partitions)
            )
        )
    if done:
        initialization.write(ctx, group_id, known.state_topics.beginning(done).done(done))
    response = blank(m.AlterShareGroupOffsetsResponse, responses=tuple(responses))
    ctx.reply(request.ticket, response, group_id)


def _altered(
    ctx: Context, share: SharePartition, epoch: int, start_offset: int, now: int
) -> KafkaError | None:
    """Set one start offset; return why not."""
    if share.topic_id is None:
        return KafkaError(ErrorCode.unknown_topic_or_partition, store.UNKNOWN_PARTITION)
    try:
        store.initialize(ctx, share, epoch, start_offset, now)
    except KafkaError as error:
        return error
    return None


# --- delete


def delete(ctx: Context, request: Request, now: int) -> None:  # noqa: ARG001 - as every handler
    """Delete the share state of topics in an empty group; topics with errors come first."""
    message = request.message
    assert isinstance(message, m.DeleteShareGroupOffsetsRequest)
    check_served(ctx)
    group_id = message.group_id
    group = ctx.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        what = "not found" if group is None else "is not a share group"
        raise KafkaError(ErrorCode.group_id_not_found, f"Group {group_id} {what}.")
    if group.members:
        raise KafkaError(ErrorCode.non_empty_group, NOT_EMPTY)
    state = group.state_topics
    doomed: dict[UUID, str] = {}
    refused = []
    for asked in message.topics if state else ():
        topic = ctx.topics.by_name(asked.topic_name)
        if topic is None:
            refused.append(_refused(asked.topic_name, store.UNKNOWN_PARTITION))
        elif topic.topic_id in state.initialized or topic.topic_id in state.deleting:
            doomed[topic.topic_id] = topic.name
        else:
            refused.append(_refused(asked.topic_name, "There is no offset information to delete."))
    if doomed:
        persister.remove_topics(ctx, group_id, doomed)
        initialization.write(ctx, group_id, state.removing(doomed).removed(doomed))
    deleted = [
        blank(
            m.DeleteShareGroupOffsetsResponseTopic,
            topic_name=name,
            topic_id=topic_id,
            error_code=ErrorCode.none,
        )
        for topic_id, name in doomed.items()
    ]
    response = blank(m.DeleteShareGroupOffsetsResponse, responses=(*refused, *deleted))
    ctx.reply(request.ticket, response, group_id)


def _refused(name: str, sentence: str) -> m.DeleteShareGroupOffsetsResponseTopic:
    return blank(
        m.DeleteShareGroupOffsetsResponseTopic,
        topic_name=name,
        error_code=ErrorCode.unknown_topic_or_partition,
        error_message=sentence,
    )


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {
        m.DescribeShareGroupOffsetsRequest.__api_key__: describe,
        m.AlterShareGroupOffsetsRequest.__api_key__: alter,
        m.DeleteShareGroupOffsetsRequest.__api_key__: delete,
    }
)
