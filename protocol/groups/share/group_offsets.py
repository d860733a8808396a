"""Share groups' offsets, for administrators: Describe-, Alter- and DeleteShareGroupOffsets.

The offsets of a share group are the start offsets in its share state, which share coordinators
have: each answer waits for theirs. They can be altered and deleted only while the group is empty.
No partition holds records here: each log ends at 0, and a start offset from elsewhere is beyond it,
with a lag below 0, as Kafka reckons.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.modern import members as modern_members
from protocol.groups.share import initialization, persister
from protocol.groups.share.group import ShareGroup
from protocol.groups.share.requests import check_served
from protocol.groups.share.state_topics import StateTopic
from protocol.groups.share_state.store import (
    NEGATIVE_PARTITION,
    NO_COUNT,
    NO_START_OFFSET,
    UNKNOWN_PARTITION,
)
from protocol.wire import messages as m
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from uuid import UUID

    from protocol.groups.context import Context
    from protocol.groups.effects import Request, Ticket
    from protocol.groups.share.persister import Results
    from protocol.groups.topics import Topic

END_OFFSET: Final = 0
NO_LAG: Final = -1
NOT_EMPTY: Final = "The group is not empty."


# --- describe


@dataclass(slots=True, eq=False)
class Description:
    """A request to describe groups, of which some wait; the answer has them in order."""

    ticket: Ticket
    groups: list[m.DescribeShareGroupOffsetsResponseGroup]
    missing: int = 0


@dataclass(slots=True, eq=False)
class DescribedGroup:
    """A group that waits; ``known`` are its topics that are there, ``others`` are not."""

    whole: Description
    place: int
    known: list[tuple[Topic, list[int]]]
    others: list[m.DescribeShareGroupOffsetsResponseTopic]

    def answered(self, ctx: Context, results: Results, now: int) -> None:  # noqa: ARG002
        """Describe the group; answer when it is the last one."""
        whole = self.whole
        topics = [
            m.DescribeShareGroupOffsetsResponseTopic(
                topic_name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    _described_partition(index, results.of(topic.topic_id, index))
                    for index in indexes
                ),
            )
            for topic, indexes in self.known
        ]
        group_id = whole.groups[self.place].group_id
        whole.groups[self.place] = _described(group_id, [*topics, *self.others])
        whole.missing -= 1
        if not whole.missing:
            _describe_all(ctx, whole)


def describe(ctx: Context, request: Request, now: int) -> None:  # noqa: ARG001 - as every handler
    """Return start offsets; -1 where there is none, whatever the reason."""
    message = request.message
    assert isinstance(message, m.DescribeShareGroupOffsetsRequest)
    check_served(ctx)
    whole = Description(request.ticket, [])
    for asked in message.groups:
        group_id = asked.group_id
        known, others = _asked(ctx, asked)
        known = [(topic, list(dict.fromkeys(indexes))) for topic, indexes in known if indexes]
        whole.groups.append(_described(group_id, others))
        if known:
            whole.missing += 1
            job = DescribedGroup(whole, len(whole.groups) - 1, known, others)
            partitions = {topic.topic_id: indexes for topic, indexes in known}
            persister.summarize(ctx, group_id, partitions, job)
    if not whole.missing:
        _describe_all(ctx, whole)


def _asked(
    ctx: Context, asked: m.DescribeShareGroupOffsetsRequestGroup
) -> tuple[list[tuple[Topic, list[int]]], list[m.DescribeShareGroupOffsetsResponseTopic]]:
    if asked.topics is None:
        return _initialized(ctx, asked.group_id), []
    named = [(ctx.topics.by_name(each.topic_name), each) for each in asked.topics]
    known: dict[UUID, tuple[Topic, list[int]]] = {}
    for topic, each in named:
        if topic is not None:
            known.setdefault(topic.topic_id, (topic, []))[1].extend(each.partitions)
    return [*known.values()], [_unknown_topic(each) for topic, each in named if topic is None]


def _initialized(ctx: Context, group_id: str) -> list[tuple[Topic, list[int]]]:
    """Return the partitions with share state of a group, by topic; nothing for another group."""
    group = ctx.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return []
    found = [
        (ctx.topics.by_id(topic_id), sorted(state.partitions))
        for topic_id, state in group.state_topics.initialized.items()
    ]
    return [(topic, indexes) for topic, indexes in found if topic is not None]


def _describe_all(ctx: Context, whole: Description) -> None:
    response = blank(m.DescribeShareGroupOffsetsResponse, groups=tuple(whole.groups))
    ctx.reply(whole.ticket, response, None)


def _described(
    group_id: str, topics: Iterable[m.DescribeShareGroupOffsetsResponseTopic]
) -> m.DescribeShareGroupOffsetsResponseGroup:
    return blank(
        m.DescribeShareGroupOffsetsResponseGroup,
        group_id=group_id,
        error_code=ErrorCode.none,
        topics=tuple(topics),
    )


def _described_partition(
    index: int, found: m.ReadSharePartitionSummaryResult | None
) -> m.DescribeShareGroupOffsetsResponsePartition:
    start_offset, leader_epoch, lag = NO_START_OFFSET, 0, NO_LAG
    if found is not None and found.error_code is ErrorCode.none:
        start_offset, leader_epoch = found.start_offset, found.leader_epoch
        if start_offset != NO_START_OFFSET and found.delivery_complete_count != NO_COUNT:
            lag = END_OFFSET - start_offset - found.delivery_complete_count
    return m.DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=start_offset,
        leader_epoch=leader_epoch,
        lag=lag,
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


@dataclass(slots=True, eq=False)
class Alteration:
    """A request to alter offsets, and its answer if all share coordinators do what it asks."""

    ticket: Ticket
    group_id: str
    response: m.AlterShareGroupOffsetsResponse

    def answered(self, ctx: Context, results: Results, now: int) -> None:
        """Answer with what share coordinators did; the group lists what has share state now."""
        initialization.take_results(ctx, self.group_id, results, now)
        responses = tuple(
            replace(
                topic,
                partitions=tuple(
                    _with_result(each, topic.topic_id, results) for each in topic.partitions
                ),
            )
            for topic in self.response.responses
        )
        ctx.reply(self.ticket, replace(self.response, responses=responses), self.group_id)


def alter(ctx: Context, request: Request, now: int) -> None:  # noqa: ARG001 - as every handler
    """Set start offsets of an empty group, which is created if there is none."""
    message = request.message
    assert isinstance(message, m.AlterShareGroupOffsetsRequest)
    check_served(ctx)
    group_id = message.group_id
    group = modern_members.find_group(ctx, ShareGroup, group_id, may_make=True)
    if group is not None and group.members:
        raise KafkaError(ErrorCode.non_empty_group, NOT_EMPTY)
    known = group or ShareGroup(group_id)
    start_offsets: dict[UUID, dict[int, int]] = {}
    names: dict[UUID, str] = {}
    responses = []
    for asked in message.topics:
        topic = ctx.topics.by_name(asked.topic_name)
        partitions = []
        for each in asked.partitions:
            error = _why_not(topic, each.partition_index)
            if error is None and topic is not None:
                names[topic.topic_id] = topic.name
                offsets = start_offsets.setdefault(topic.topic_id, {})
                offsets[each.partition_index] = each.start_offset
            partitions.append(_altered(each.partition_index, error))
        responses.append(
            m.AlterShareGroupOffsetsResponseTopic(
                topic_name=asked.topic_name,
                topic_id=None if topic is None else topic.topic_id,
                partitions=tuple(partitions),
            )
        )
    response = blank(m.AlterShareGroupOffsetsResponse, responses=tuple(responses))
    if not start_offsets:
        ctx.reply(request.ticket, response, group_id)
        return
    topics = {key: StateTopic(names[key], frozenset(rows)) for key, rows in start_offsets.items()}
    begun = known.state_topics.beginning(topics)
    if begun != known.state_topics:
        initialization.write(ctx, group_id, begun)
    job = Alteration(request.ticket, group_id, response)
    persister.initialize(ctx, group_id, known.epoch, start_offsets, job)


def _why_not(topic: Topic | None, index: int) -> KafkaError | None:
    """Return why an offset cannot be set; share coordinators check it again."""
    if topic is None or index >= topic.partitions:
        return KafkaError(ErrorCode.unknown_topic_or_partition, UNKNOWN_PARTITION)
    if index < 0:
        return KafkaError(ErrorCode.invalid_request, NEGATIVE_PARTITION)
    return None


def _altered(index: int, error: KafkaError | None) -> m.AlterShareGroupOffsetsResponsePartition:
    return m.AlterShareGroupOffsetsResponsePartition(
        partition_index=index,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
    )


def _with_result(
    altered: m.AlterShareGroupOffsetsResponsePartition, topic_id: UUID | None, results: Results
) -> m.AlterShareGroupOffsetsResponsePartition:
    found = None if topic_id is None else results.of(topic_id, altered.partition_index)
    if found is None or altered.error_code is not ErrorCode.none:
        return altered
    return replace(altered, error_code=found.error_code, error_message=found.error_message)


# --- delete


@dataclass(slots=True, eq=False)
class OffsetsDeletion:
    """A request to delete the offsets of topics; ``refused`` are those that it cannot."""

    ticket: Ticket
    group_id: str
    names: dict[UUID, str] = field(default_factory=dict)
    refused: list[m.DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)

    def answered(self, ctx: Context, results: Results, now: int) -> None:  # noqa: ARG002
        """List the topics without share state no longer; the others are still being deleted."""
        gone = {}
        for topic_id, name in self.names.items():
            failed = results.failed(topic_id)
            if failed is None:
                gone[topic_id] = name
            else:
                self.refused.append(
                    blank(
                        m.DeleteShareGroupOffsetsResponseTopic,
                        topic_name=name,
                        topic_id=topic_id,
                        error_code=failed.error_code,
                        error_message=failed.error_message,
                    )
                )
        group = ctx.groups.get(self.group_id)
        if (
            gone
            and isinstance(group, ShareGroup)
            and gone.keys() & group.state_topics.deleting.keys()
        ):
            initialization.write(ctx, self.group_id, group.state_topics.removed(gone))
        deleted = [
            blank(
                m.DeleteShareGroupOffsetsResponseTopic,
                topic_name=name,
                topic_id=topic_id,
                error_code=ErrorCode.none,
            )
            for topic_id, name in gone.items()
        ]
        _answer_deletion(ctx, self, deleted)


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
    job = OffsetsDeletion(request.ticket, group_id)
    partitions: dict[UUID, Iterable[int]] = {}
    for asked in message.topics if state else ():
        topic = ctx.topics.by_name(asked.topic_name)
        if topic is None:
            job.refused.append(_refused(asked.topic_name, UNKNOWN_PARTITION))
            continue
        topic_id = topic.topic_id
        if topic_id in state.initialized:
            begun = state.initializing.get(topic_id)
            more = frozenset[int]() if begun is None else begun.partitions
            partitions[topic_id] = state.initialized[topic_id].partitions | more
        elif topic_id in state.deleting:
            partitions[topic_id] = range(topic.partitions)
        else:
            job.refused.append(
                _refused(asked.topic_name, "There is no offset information to delete.")
            )
            continue
        job.names[topic_id] = topic.name
    if not partitions:
        _answer_deletion(ctx, job, ())
        return
    initialization.write(ctx, group_id, state.removing(job.names))
    persister.delete(ctx, group_id, partitions, job)


def _answer_deletion(
    ctx: Context, job: OffsetsDeletion, deleted: Iterable[m.DeleteShareGroupOffsetsResponseTopic]
) -> None:
    response = blank(m.DeleteShareGroupOffsetsResponse, responses=(*job.refused, *deleted))
    ctx.reply(job.ticket, response, job.group_id)


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
