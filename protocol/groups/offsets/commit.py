"""Committed offsets: OffsetCommit, OffsetDelete, and other removals of offsets.

Hard state is ``ctx.offsets``: group id, then topic, then partition, to the last committed value;
``replay_commit`` is its only writer. A group that commits without members (a simple consumer) is an
Empty classic group, created when its first commit is replayed.
"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from protocol.groups.effects import TopicsDeleted
from protocol.groups.group_type import ShardPart, committing_type
from protocol.groups.offsets import deleted_topics
from protocol.groups.offsets import expiry as offset_expiry
from protocol.groups.offsets.expiry import expire
from protocol.groups.offsets.fetch import TOPIC_IDS_SINCE, fetch
from protocol.groups.timers import TimerKind
from protocol.records import OffsetCommitKey, OffsetCommitValue, Record
from protocol.unread import TopicOffsets
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.group_type import CommitCheck, OffsetPolicy, Replay, Timeout
    from protocol.groups.topics import Topic, Topics

_NO_RETENTION: Final = timedelta(milliseconds=-1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_NONE: Final = ErrorCode.none


class _Terms(NamedTuple):
    """The common data of all partitions of one commit; times in Unix milliseconds."""

    group_id: str
    commit_timestamp: int
    expire_timestamp: int
    metadata_length_max: int


def commit(ctx: Context, request: Request, now: int) -> None:
    """Commit offsets of a member, or of a simple consumer (generation -1, no member id).

    A topic or partition that does not exist is refused on its own; the group is checked only when
    something is left to commit.
    """
    message = cast("OffsetCommitRequest", request.message)
    by_id = request.api_version >= TOPIC_IDS_SINCE
    asked = [(topic, _find_topic(ctx.topics, topic, by_id)) for topic in message.topics]
    if _has_partition(asked):
        allows = check_commit(ctx, request, now)
        if allows is not None:
            _check_partitions(ctx, asked, allows)
    retention, wall_ms = message.retention_time, ctx.wall.at(now)
    terms = _Terms(
        message.group_id,
        wall_ms,
        -1 if retention == _NO_RETENTION else wall_ms + retention // _MILLISECOND,
        ctx.configs.integer("offset.metadata.max.bytes"),
    )
    answers = [
        (
            topic,
            _refused(topic, by_id)
            if known is None
            else _committed(ctx, terms, known, topic.partitions),
        )
        for topic, known in asked
    ]
    ctx.reply(request.ticket, _response(answers), message.group_id)


def check_commit(ctx: Context, request: Request, now: int) -> CommitCheck | None:
    """Refuse a commit that the group does not allow; return the check for each partition."""
    message: Any = request.message
    return committing_type(ctx, message.group_id).offsets.check_commit(ctx, request, now)


def _find_topic(topics: Topics, asked: OffsetCommitRequestTopic, by_id: bool) -> Topic | None:
    if not by_id:
        return topics.by_name(asked.name)
    return None if asked.topic_id is None else topics.by_id(asked.topic_id)


def _has_partition(asked: list[tuple[OffsetCommitRequestTopic, Topic | None]]) -> bool:
    for topic, known in asked:
        if known is not None:
            for partition in topic.partitions:
                if 0 <= partition.partition_index < known.partitions:
                    return True
    return False


def _check_partitions(
    ctx: Context,
    asked: list[tuple[OffsetCommitRequestTopic, Topic | None]],
    allows: CommitCheck,
) -> None:
    """Check each partition to commit; if one is refused, the whole request is."""
    length_max = ctx.configs.integer("offset.metadata.max.bytes")
    for topic, known in asked:
        for partition in topic.partitions if known is not None else ():
            assert known is not None
            index = partition.partition_index
            is_short = len(partition.committed_metadata or "") <= length_max
            if 0 <= index < known.partitions and is_short:
                allows(known, index)


def _refused(asked: OffsetCommitRequestTopic, by_id: bool) -> list[OffsetCommitResponsePartition]:
    code = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    return [_answer(partition.partition_index, code) for partition in asked.partitions]


def _committed(
    ctx: Context,
    terms: _Terms,
    known: Topic,
    partitions: tuple[OffsetCommitRequestPartition, ...],
) -> list[OffsetCommitResponsePartition]:
    answers = []
    is_whole = terms.expire_timestamp == -1  # a record with an expiry time lacks the other fields
    for partition in partitions:
        index = partition.partition_index
        metadata = partition.committed_metadata or ""
        if not 0 <= index < known.partitions:
            code = ErrorCode.unknown_topic_or_partition
        elif len(metadata) > terms.metadata_length_max:
            code = ErrorCode.offset_metadata_too_large
        else:
            code = _NONE
            value = OffsetCommitValue(
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch if is_whole else -1,
                metadata=metadata,
                commit_timestamp=terms.commit_timestamp,
                expire_timestamp=terms.expire_timestamp,
                topic_id=known.topic_id if is_whole else None,
            )
            ctx.emit(Record(OffsetCommitKey(terms.group_id, known.name, index), value))
            ctx.offset_counts.committed += 1
        answers.append(_answer(index, code))
    return answers


@lru_cache(maxsize=16384)
def _answer(index: int, code: ErrorCode) -> OffsetCommitResponsePartition:
    """Return an answer; answers are immutable, so a few shared objects serve every commit."""
    return OffsetCommitResponsePartition(partition_index=index, error_code=code)


def _response(
    answers: list[tuple[OffsetCommitRequestTopic, list[OffsetCommitResponsePartition]]],
) -> OffsetCommitResponse:
    """Build the response; equal partition answers are the same object every time.

    So the encoder may cache their bytes.
    """
    if len(answers) == 1 and len(answers[0][1]) == 1:
        topic, (partition,) = answers[0]
        return _single(topic.topic_id, topic.name, partition.partition_index, partition.error_code)
    topics = tuple(
        OffsetCommitResponseTopic(
            topic_id=topic.topic_id, name=topic.name, partitions=tuple(partitions)
        )
        for topic, partitions in answers
    )
    return OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=topics)


@lru_cache(maxsize=16384)
def _single(topic_id: UUID | None, name: str, index: int, code: ErrorCode) -> OffsetCommitResponse:
    topic = OffsetCommitResponseTopic(
        topic_id=topic_id, name=name, partitions=(_answer(index, code),)
    )
    return OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=(topic,))


def delete(ctx: Context, request: Request, now: int) -> None:  # noqa: ARG001 - as every handler
    """Delete a group's offsets, except those of topics that its members subscribe to."""
    message = cast("OffsetDeleteRequest", request.message)
    policy = committing_type(ctx, message.group_id).offsets
    policy.check_delete(ctx, message.group_id)
    response = OffsetDeleteResponse(
        error_code=_NONE,
        throttle_time=NO_THROTTLE,
        topics=tuple(_deleted(ctx, policy, message.group_id, topic) for topic in message.topics),
    )
    ctx.reply(request.ticket, response, message.group_id)


def _deleted(
    ctx: Context, policy: OffsetPolicy, group_id: str, asked: OffsetDeleteRequestTopic
) -> OffsetDeleteResponseTopic:
    known = ctx.topics.by_name(asked.name)
    count = 0 if known is None else known.partitions
    is_subscribed = policy.is_subscribed(ctx, group_id, asked.name)
    answers = []
    for partition in asked.partitions:
        index = partition.partition_index
        if not 0 <= index < count:
            code = ErrorCode.unknown_topic_or_partition
        elif is_subscribed:
            code = ErrorCode.group_subscribed_to_topic
        else:
            code = _NONE
            if index in ctx.offsets.get(group_id, {}).get(asked.name, {}):
                ctx.emit(Record(OffsetCommitKey(group_id, asked.name, index), None))
                ctx.offset_counts.deleted += 1
        answers.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
    return OffsetDeleteResponseTopic(name=asked.name, partitions=tuple(answers))


def delete_all(ctx: Context, group_id: str) -> None:
    """Remove every offset of a group that is being deleted."""
    doomed = [
        OffsetCommitKey(group_id, topic, partition)
        for topic, partitions in ctx.offsets.get(group_id, {}).items()
        for partition in partitions
    ]
    for key in doomed:
        ctx.emit(Record(key, None))


def topics_deleted(ctx: Context, event: TopicsDeleted, now: int) -> None:  # noqa: ARG001
    """Remove the offsets of deleted topics in all groups.

    An offset of a topic that has been created again with the same name has the new topic's id, and
    stays.
    """
    names = frozenset(event.names)
    for group_id in list(ctx.offsets):
        ctx.contain(group_id, "topics deleted", deleted_topics.remove, ctx, group_id, names)


def replay_commit(
    ctx: Context, key: OffsetCommitKey, value: OffsetCommitValue | bytes | None
) -> None:
    """Apply one committed offset, decoded or not, or its tombstone."""
    group_id = key.group
    by_topic = ctx.offsets.get(group_id)
    if value is None:
        if by_topic is not None:
            _forget(ctx, key, by_topic)
        return
    if by_topic is None:
        by_topic = ctx.offsets[group_id] = {}
    if group_id not in ctx.groups:  # also when the group was deleted in the same batch
        ctx.groups[group_id] = ctx.tables.simple_type.simple_group()
    partitions = by_topic.get(key.topic)
    if partitions is None:
        partitions = by_topic[key.topic] = TopicOffsets()
    partitions[key.partition] = value


def _forget(ctx: Context, key: OffsetCommitKey, by_topic: dict[str, TopicOffsets]) -> None:
    partitions = by_topic.get(key.topic)
    if partitions is not None:
        partitions.stored.pop(key.partition, None)
        if not partitions:
            del by_topic[key.topic]
    if not by_topic:
        ctx.offsets.pop(key.group, None)


HANDLERS: Mapping[int, Callable[[Context, Request, int], None]] = {8: commit, 9: fetch, 47: delete}


def elected(ctx: Context, now: int) -> None:
    """Begin to look for expired offsets, and for offsets of topics deleted meanwhile."""
    offset_expiry.arm(ctx, now)
    deleted_topics.elected(ctx, now)


REPLAYS: Mapping[type, Replay] = {OffsetCommitKey: replay_commit}

TIMEOUTS: Mapping[str, Timeout] = {TimerKind.OFFSET_EXPIRY: expire, **deleted_topics.TIMEOUTS}

PART: Final = ShardPart(
    name="offsets",
    handlers=HANDLERS,
    replays=REPLAYS,
    timeouts=TIMEOUTS,
    events={TopicsDeleted: topics_deleted},
    elected=elected,
    configs_changed=offset_expiry.configs_changed,
)
