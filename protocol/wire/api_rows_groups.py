"""The API table's rows of requests about groups, from members and administrators."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast

from protocol.wire import messages as m
from protocol.wire import refusals
from protocol.wire import streams_messages as streams
from protocol.wire.api import RARE, GroupsField, GroupTraits, always, never
from protocol.wire.api_makers import (
    DELETE_GROUP,
    DESCRIBE_GROUP,
    READ_GROUP,
    all_groups,
    by_name_until,
    costly,
    group,
    groups,
    share_state,
)
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.static.protocol import Entity

    from protocol.wire.api import Api

UNCHANGED: Final = timedelta(milliseconds=-1)


def says_something_new(message: Any) -> bool:
    """Return whether a ConsumerGroupHeartbeat joins, leaves or changes: others write no record."""
    beat = cast("m.ConsumerGroupHeartbeatRequest", message)
    says_nothing_new = (
        beat.member_epoch > 0
        and beat.rebalance_timeout == UNCHANGED
        and beat.subscribed_topic_names is None
        and beat.subscribed_topic_regex is None
        and beat.topic_partitions is None
    )
    return not says_nothing_new


def changes_share_member(message: Any) -> bool:
    """Return whether a ShareGroupHeartbeat joins, leaves or changes: others write no record."""
    beat = cast("m.ShareGroupHeartbeatRequest", message)
    return beat.member_epoch <= 0 or beat.subscribed_topic_names is not None


def says_something_new_of_tasks(message: Any) -> bool:
    """Return whether a StreamsGroupHeartbeat joins, leaves or changes: others write no record."""
    beat = cast("streams.StreamsGroupHeartbeatRequest", message)
    says_nothing_new = (
        beat.member_epoch > 0
        and beat.rebalance_timeout == UNCHANGED
        and beat.topology is None
        and beat.active_tasks is None
        and beat.process_id is None
    )
    return not says_nothing_new


MEMBERS: Final = (
    by_name_until(
        9,
        group(
            (2, 10),
            (m.OffsetCommitRequest, m.OffsetCommitResponse),
            READ_GROUP,
            GroupTraits(
                needs_id=False,  # a simple consumer's group may have no name
                is_believed=False,
                is_leased=False,
                has_few_answers=True,
                changes_memory=False,
                waits_for_members=False,
                too_large=ErrorCode.invalid_commit_offset_size,
                writes=always,
                weight=6,
            ),
            refusals.offset_commit,
        ),
    ),
    group(
        (0, 9),
        (m.JoinGroupRequest, m.JoinGroupResponse),
        READ_GROUP,
        GroupTraits(
            needs_id=True,
            is_believed=False,
            is_leased=False,
            has_few_answers=False,
            changes_memory=True,
            waits_for_members=True,
            too_large=ErrorCode.unknown_server_error,
            writes=always,
            weight=6,
        ),
        refusals.join_group,
    ),
    group(
        (0, 4),
        (m.HeartbeatRequest, m.HeartbeatResponse),
        READ_GROUP,
        GroupTraits(
            needs_id=True,
            is_believed=True,
            is_leased=True,
            has_few_answers=True,
            changes_memory=True,
            waits_for_members=False,
            too_large=ErrorCode.unknown_server_error,
            writes=never,
            weight=20,
        ),
    ),
    group(
        (0, 5),
        (m.LeaveGroupRequest, m.LeaveGroupResponse),
        READ_GROUP,
        GroupTraits(
            needs_id=True,
            is_believed=False,
            is_leased=False,
            has_few_answers=False,
            changes_memory=True,
            waits_for_members=False,
            too_large=ErrorCode.unknown_server_error,
            writes=always,
            weight=5,
        ),
    ),
    group(
        (0, 5),
        (m.SyncGroupRequest, m.SyncGroupResponse),
        READ_GROUP,
        GroupTraits(
            needs_id=True,
            is_believed=False,
            is_leased=False,
            has_few_answers=False,
            changes_memory=True,
            waits_for_members=True,
            too_large=ErrorCode.unknown_server_error,
            writes=always,
            weight=6,
        ),
    ),
    group(
        (0, 1),
        (m.ConsumerGroupHeartbeatRequest, m.ConsumerGroupHeartbeatResponse),
        READ_GROUP,
        GroupTraits(
            needs_id=False,  # its handler refuses it with INVALID_REQUEST, as in Kafka
            is_believed=False,
            is_leased=True,
            has_few_answers=False,
            changes_memory=True,
            waits_for_members=False,
            too_large=ErrorCode.unknown_server_error,
            writes=says_something_new,
            weight=10,
        ),
    ),
    group(
        (1, 1),
        (m.ShareGroupHeartbeatRequest, m.ShareGroupHeartbeatResponse),
        READ_GROUP,
        GroupTraits(
            needs_id=False,  # its handler refuses it with INVALID_REQUEST, as in Kafka
            is_believed=False,
            is_leased=True,
            has_few_answers=False,
            changes_memory=True,
            waits_for_members=False,
            too_large=ErrorCode.unknown_server_error,
            writes=changes_share_member,
            weight=10,
        ),
    ),
    group(
        (0, 1),
        (streams.StreamsGroupHeartbeatRequest, streams.StreamsGroupHeartbeatResponse),
        READ_GROUP,
        GroupTraits(
            needs_id=False,  # its handler refuses it with INVALID_REQUEST, as in Kafka
            is_believed=False,
            is_leased=True,
            has_few_answers=False,
            changes_memory=True,
            waits_for_members=False,
            too_large=ErrorCode.unknown_server_error,
            writes=says_something_new_of_tasks,
            weight=10,
        ),
        refusals.streams_group_heartbeat,
    ),
)
"""Requests that members of groups send."""


def _described(
    versions: tuple[int, int],
    shapes: tuple[type[Entity], type[Entity]],
    described: type[Entity],
    asked: str,
) -> Api:
    """Build the row of a request that describes groups; ``asked`` is its field with their ids."""
    traits = GroupsField(
        names=attrgetter(asked),
        cut=lambda request, wanted: replace(
            request, **{asked: tuple(filter(wanted, getattr(request, asked)))}
        ),
        parts="groups",
        writes=never,
        weight=RARE,
    )
    refuse = refusals.in_every_group(shapes[1], described, asked)
    return costly(groups(versions, shapes, DESCRIBE_GROUP, traits, refuse))


ABOUT_GROUPS: Final = (
    by_name_until(
        9,
        groups(
            (1, 10),
            (m.OffsetFetchRequest, m.OffsetFetchResponse),
            DESCRIBE_GROUP,
            GroupsField(
                names=lambda request: tuple(group.group_id for group in request.groups),
                cut=lambda request, wanted: m.OffsetFetchRequest(
                    groups=tuple(group for group in request.groups if wanted(group.group_id)),
                    require_stable=request.require_stable,
                ),
                parts="groups",
                writes=never,
                weight=6,
            ),
            refusals.offset_fetch,
        ),
    ),
    _described(
        (0, 6),
        (m.DescribeGroupsRequest, m.DescribeGroupsResponse),
        m.DescribedGroup,
        "groups",
    ),
    all_groups((0, 5), (m.ListGroupsRequest, m.ListGroupsResponse), DESCRIBE_GROUP),
    groups(
        (0, 3),
        (m.DeleteGroupsRequest, m.DeleteGroupsResponse),
        DELETE_GROUP,
        GroupsField(
            names=lambda request: request.groups_names,
            cut=lambda request, wanted: m.DeleteGroupsRequest(
                groups_names=tuple(filter(wanted, request.groups_names))
            ),
            parts="results",
            writes=always,
            weight=RARE,
        ),
        refusals.delete_groups,
    ),
    group(
        (0, 0),
        (m.OffsetDeleteRequest, m.OffsetDeleteResponse),
        DELETE_GROUP,
        GroupTraits(
            needs_id=True,
            is_believed=False,
            is_leased=False,
            has_few_answers=False,
            changes_memory=False,
            waits_for_members=False,
            too_large=ErrorCode.unknown_server_error,
            writes=always,
            weight=RARE,
        ),
    ),
    _described(
        (0, 1),
        (m.ConsumerGroupDescribeRequest, m.ConsumerGroupDescribeResponse),
        m.DescribedConsumerGroup,
        "group_ids",
    ),
    _described(
        (1, 1),
        (m.ShareGroupDescribeRequest, m.ShareGroupDescribeResponse),
        m.DescribedShareGroup,
        "group_ids",
    ),
    _described(
        (0, 1),
        (streams.StreamsGroupDescribeRequest, streams.StreamsGroupDescribeResponse),
        streams.DescribedStreamsGroup,
        "group_ids",
    ),
)
"""Requests about groups from administrators and members."""

_READS: Final = GroupTraits(
    needs_id=False,  # its answer is empty, as in Kafka
    is_believed=False,
    is_leased=False,
    has_few_answers=False,
    changes_memory=False,
    waits_for_members=False,
    too_large=ErrorCode.unknown_server_error,
    writes=never,
    weight=RARE,
)
_WRITES: Final = replace(_READS, writes=always)

SHARE_GROUP_OFFSETS: Final = (
    groups(
        (0, 1),
        (m.DescribeShareGroupOffsetsRequest, m.DescribeShareGroupOffsetsResponse),
        DESCRIBE_GROUP,
        GroupsField(
            names=lambda request: tuple(group.group_id for group in request.groups),
            cut=lambda request, wanted: m.DescribeShareGroupOffsetsRequest(
                groups=tuple(group for group in request.groups if wanted(group.group_id))
            ),
            parts="groups",
            writes=never,
            weight=RARE,
        ),
        refusals.in_every_group(
            m.DescribeShareGroupOffsetsResponse, m.DescribeShareGroupOffsetsResponseGroup, "groups"
        ),
    ),
    group(
        (0, 0),
        (m.AlterShareGroupOffsetsRequest, m.AlterShareGroupOffsetsResponse),
        READ_GROUP,
        replace(_WRITES, needs_id=True),
    ),
    group(
        (0, 0),
        (m.DeleteShareGroupOffsetsRequest, m.DeleteShareGroupOffsetsResponse),
        DELETE_GROUP,
        replace(_WRITES, needs_id=True),
    ),
)
"""Requests of administrators about the start offsets of share groups."""

SHARE_STATE: Final = (
    share_state(
        (0, 0),
        (m.InitializeShareGroupStateRequest, m.InitializeShareGroupStateResponse),
        _WRITES,
        refusals.share_state(
            m.InitializeShareGroupStateResponse,
            m.InitializeShareStateResult,
            m.InitializeSharePartitionResult,
        ),
    ),
    share_state(
        (0, 0),
        (m.ReadShareGroupStateRequest, m.ReadShareGroupStateResponse),
        _WRITES,  # the reader's leader epoch
        refusals.share_state(
            m.ReadShareGroupStateResponse, m.ReadShareStateResult, m.ReadSharePartitionResult
        ),
    ),
    share_state(
        (0, 1),
        (m.WriteShareGroupStateRequest, m.WriteShareGroupStateResponse),
        _WRITES,
        refusals.share_state(
            m.WriteShareGroupStateResponse, m.WriteShareStateResult, m.WriteSharePartitionResult
        ),
    ),
    share_state(
        (0, 0),
        (m.DeleteShareGroupStateRequest, m.DeleteShareGroupStateResponse),
        _WRITES,
        refusals.share_state(
            m.DeleteShareGroupStateResponse, m.DeleteShareStateResult, m.DeleteSharePartitionResult
        ),
    ),
    share_state(
        (0, 1),
        (m.ReadShareGroupStateSummaryRequest, m.ReadShareGroupStateSummaryResponse),
        _READS,
        refusals.share_state(
            m.ReadShareGroupStateSummaryResponse,
            m.ReadShareStateSummaryResult,
            m.ReadSharePartitionSummaryResult,
        ),
    ),
)
"""Requests of brokers to the share coordinator (KIP-932)."""
