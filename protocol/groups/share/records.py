"""The records of share groups, as the codec of their modern group type.

A member's current assignment has no assignment epochs and no partitions to revoke: several members
may have a partition, and nobody waits for another to give it up.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from protocol.groups.modern.assignment_records import CurrentAssignment, read_target, write_target
from protocol.groups.modern.codec import RecordCodec
from protocol.groups.modern.steps import NO_EPOCH
from protocol.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.groups.topic_numbers import Partition, TopicNumbers

_HEAD: Final = Struct(">hiib")
"""Version, member epoch, previous member epoch, state."""

_VERSION: Final = slice(0, 2)
"""Of a target assignment; topics and tags follow, as in a current assignment after its head."""

UNKNOWN_MEMBER: Final = ShareGroupMemberMetadataValue(
    rack_id=None, client_id="", client_host="", subscribed_topic_names=()
)
"""A member without metadata yet: only its assignment was read."""


def write_owned(partitions: Mapping[Partition, int], numbers: TopicNumbers) -> bytes:
    """Encode the partitions of a current assignment, and its end: as in an answer to the member."""
    return owned_in_target(write_target(partitions, numbers))


def owned_in_target(target: bytes) -> bytes:
    """Return the part of a target assignment that a current assignment has, too."""
    return target[_VERSION.stop :]


def write_current(
    current: CurrentAssignment, numbers: TopicNumbers, assigned: bytes | None = None
) -> bytes:
    """Encode a current assignment; ``assigned`` is its encoded part, if known already."""
    head = _HEAD.pack(0, current.member_epoch, current.previous_member_epoch, current.state)
    return head + (write_owned(current.assigned, numbers) if assigned is None else assigned)


def read_current(data: bytes, numbers: TopicNumbers) -> CurrentAssignment:
    """Decode a current assignment."""
    _, epoch, previous, state = _HEAD.unpack_from(data)
    partitions = read_target(data[_VERSION] + data[_HEAD.size :], numbers)
    return CurrentAssignment(epoch, previous, state, dict.fromkeys(partitions, NO_EPOCH), {})


def _epoch(_group: Any, epoch: int, metadata_hash: int) -> ShareGroupMetadataValue:
    return ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)


def _target_epoch(
    epoch: int, timestamp_ms: int, arriving_epoch: int
) -> ShareGroupTargetAssignmentMetadataValue:
    return ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms, arriving_epoch=arriving_epoch
    )


CODEC: Final = RecordCodec(
    epoch_key=ShareGroupMetadataKey,
    epoch=_epoch,
    member_key=ShareGroupMemberMetadataKey,
    unknown_member=UNKNOWN_MEMBER,
    target_epoch_key=ShareGroupTargetAssignmentMetadataKey,
    target_epoch=_target_epoch,
    target_key=ShareGroupTargetAssignmentMemberKey,
    read_target=read_target,
    current_key=ShareGroupCurrentMemberAssignmentKey,
    read_current=read_current,
    write_current=write_current,
    write_owned=write_owned,
    owned_in_target=owned_in_target,
)
