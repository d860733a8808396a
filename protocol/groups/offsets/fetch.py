"""OffsetFetch: the committed offsets of a group.

A consumer group checks the member id and epoch of the request; a classic group ignores them.
``require_stable`` has nothing to wait for: there are no transactions here, and every answer waits
in the gate for the commits before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from protocol.groups.group_type import committing_type
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import (
    NO_THROTTLE,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.records import OffsetCommitValue

TOPIC_IDS_SINCE: Final = 10
"""The first version that identifies topics by their ids."""


def fetch(ctx: Context, request: Request, now: int) -> None:  # noqa: ARG001 - as every handler
    """Answer for each requested group; a group that does not exist has no committed offsets.

    All offsets of a group are listed at most once per request, however often the request names the
    group: there may be tens of thousands of partitions.
    """
    message = cast("OffsetFetchRequest", request.message)
    by_id = request.api_version >= TOPIC_IDS_SINCE
    whole = {each.group_id: each for each in reversed(message.groups) if each.topics is None}
    asked = (
        each for each in message.groups if each.topics is not None or whole[each.group_id] is each
    )
    response = OffsetFetchResponse(
        throttle_time=NO_THROTTLE,
        groups=tuple(_fetched(ctx, group, by_id) for group in asked),
    )
    ctx.reply(request.ticket, response, None)


def _fetched(ctx: Context, asked: OffsetFetchRequestGroup, by_id: bool) -> OffsetFetchResponseGroup:
    try:
        committing_type(ctx, asked.group_id).offsets.check_fetch(ctx, asked)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=(), error_code=error.code)
    committed = ctx.offsets.get(asked.group_id, {})
    if asked.topics is None:
        topics = _every_topic(ctx, committed, by_id)
    else:
        topics = [_topic(ctx, committed, topic, by_id) for topic in asked.topics]
        # Kafka lists the topics that it knows first; its tests depend on it, clients do not.
        topics.sort(key=lambda topic: by_id and topic.name == "")
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=tuple(topics))


def _every_topic(
    ctx: Context, committed: Mapping[str, Mapping[int, OffsetCommitValue]], by_id: bool
) -> list[OffsetFetchResponseTopics]:
    topics = []
    for name, partitions in committed.items():
        known = ctx.topics.by_name(name)
        if by_id and known is None:
            continue  # without an id this topic cannot be identified
        topics.append(
            OffsetFetchResponseTopics(
                topic_id=known.topic_id if by_id and known is not None else None,
                name=name,
                partitions=tuple(_partition(index, value) for index, value in partitions.items()),
            )
        )
    return topics


def _topic(
    ctx: Context,
    committed: Mapping[str, Mapping[int, OffsetCommitValue]],
    asked: OffsetFetchRequestTopics,
    by_id: bool,
) -> OffsetFetchResponseTopics:
    name = asked.name
    if by_id:
        known = None if asked.topic_id is None else ctx.topics.by_id(asked.topic_id)
        if known is None:
            return OffsetFetchResponseTopics(
                topic_id=asked.topic_id,
                partitions=tuple(
                    _nothing(index, ErrorCode.unknown_topic_id) for index in asked.partition_indexes
                ),
            )
        name = known.name
    values = committed.get(name, {})
    answers = []
    for index in asked.partition_indexes:
        value = values.get(index)
        if value is None or _is_of_another_topic(value, asked):
            answers.append(_nothing(index, ErrorCode.none))
        else:
            answers.append(_partition(index, value))
    return OffsetFetchResponseTopics(topic_id=asked.topic_id, name=name, partitions=tuple(answers))


def _is_of_another_topic(value: OffsetCommitValue, asked: OffsetFetchRequestTopics) -> bool:
    """Whether the offset belongs to a deleted topic that had the same name."""
    return None not in (value.topic_id, asked.topic_id) and value.topic_id != asked.topic_id


def _partition(index: int, value: OffsetCommitValue) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=ErrorCode.none,
    )


def _nothing(index: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=-1,
        committed_leader_epoch=-1,
        metadata="",
        error_code=code,
    )
