"""The records of consumer groups, as the codec of their modern group type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.modern.assignment_records import (
    read_current,
    read_target,
    write_current,
    write_owned,
)
from protocol.groups.modern.codec import RecordCodec
from protocol.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

UNKNOWN_MEMBER: Final = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    subscribed_topic_names=(),
    subscribed_topic_regex="",
    rebalance_timeout_ms=-1,
    server_assignor=None,
)
"""A member without metadata yet: only its assignment was read."""


def _epoch(_group: Any, epoch: int, metadata_hash: int) -> ConsumerGroupMetadataValue:
    return ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)


def _target_epoch(
    epoch: int, timestamp_ms: int, arriving_epoch: int
) -> ConsumerGroupTargetAssignmentMetadataValue:
    return ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms, arriving_epoch=arriving_epoch
    )


def _regex(
    topics: Sequence[str], version: int, timestamp_ms: int
) -> ConsumerGroupRegularExpressionValue:
    return ConsumerGroupRegularExpressionValue(
        topics=tuple(topics), version=version, timestamp=timestamp_ms
    )


CODEC: Final = RecordCodec(
    epoch_key=ConsumerGroupMetadataKey,
    epoch=_epoch,
    member_key=ConsumerGroupMemberMetadataKey,
    unknown_member=UNKNOWN_MEMBER,
    target_epoch_key=ConsumerGroupTargetAssignmentMetadataKey,
    target_epoch=_target_epoch,
    target_key=ConsumerGroupTargetAssignmentMemberKey,
    read_target=read_target,
    current_key=ConsumerGroupCurrentMemberAssignmentKey,
    read_current=read_current,
    write_current=write_current,
    write_owned=write_owned,
    regex_key=ConsumerGroupRegularExpressionKey,
    regex=_regex,
)
