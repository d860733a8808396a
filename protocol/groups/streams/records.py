"""The records of streams groups, as the codec of their modern group type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from protocol.groups.modern.codec import RecordCodec
from protocol.groups.streams.task_records import (
    read_current,
    read_target,
    write_current,
    write_owned,
)
from protocol.records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsKeyValue,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN_MEMBER: Final = StreamsGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    rebalance_timeout_ms=-1,
    topology_epoch=-1,
    process_id="",
    user_endpoint=None,
    client_tags=(),
)
"""A member without metadata yet: only its assignment was read."""

NOT_VALIDATED: Final = -1
"""The validated topology epoch of a group whose topology cannot run."""


def key_values(pairs: Mapping[str, str]) -> tuple[StreamsKeyValue, ...]:
    """Return names and values in the form of the records, sorted."""
    return tuple(StreamsKeyValue(key=key, value=value) for key, value in sorted(pairs.items()))


def _epoch(group: Any, epoch: int, metadata_hash: int) -> StreamsGroupMetadataValue:
    """Return a group's value; what it was prepared for is validated by it."""
    configured = group.configured
    is_ready = configured is not None and configured.is_ready
    return StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=configured.epoch if is_ready else NOT_VALIDATED,
        last_assignment_configs=key_values(group.assignment_configs),
    )


def _target_epoch(
    epoch: int, timestamp_ms: int, arriving_epoch: int
) -> StreamsGroupTargetAssignmentMetadataValue:
    return StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms, arriving_epoch=arriving_epoch
    )


CODEC: Final = RecordCodec(
    epoch_key=StreamsGroupMetadataKey,
    epoch=_epoch,
    member_key=StreamsGroupMemberMetadataKey,
    unknown_member=UNKNOWN_MEMBER,
    target_epoch_key=StreamsGroupTargetAssignmentMetadataKey,
    target_epoch=_target_epoch,
    target_key=StreamsGroupTargetAssignmentMemberKey,
    read_target=read_target,
    current_key=StreamsGroupCurrentMemberAssignmentKey,
    read_current=read_current,
    write_current=write_current,
    write_owned=write_owned,
)
