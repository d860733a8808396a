"""Encoders for the few record values that kio encodes too slowly, or not at all.

:mod:`protocol.records` writes a value's version, its first two bytes. Tests compare the bytes with
kio's and Kafka's.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

from protocol.record_types.classic import MemberMetadata
from protocol.record_types.consumer import EMPTY_CLASSIC_METADATA, ClassicMemberMetadata
from protocol.wire import compact
from protocol.wire.writers import encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from protocol.record_types.classic import (
        GroupMetadataValue,
        OffsetCommitKey,
        OffsetCommitValue,
        Written,
    )
    from protocol.record_types.consumer import ConsumerGroupMemberMetadataValue
    from protocol.record_types.share import (
        ShareGroupMemberMetadataValue,
        ShareGroupStatePartitionMetadataValue,
        ShareTopicPartitions,
    )
    from protocol.record_types.share_state import (
        ShareSnapshotKey,
        ShareSnapshotValue,
        ShareStateBatch,
    )

_NULL_STRING: Final = b"\xff\xff"
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_INT64_INT32: Final = struct.Struct(">qi")
_SNAPSHOT: Final = struct.Struct(">iiiqqq")
_BATCH: Final = struct.Struct(">qqbhB")
_NO_ID: Final = bytes(16)
NO_DELIVERY_COUNT: Final = -1
"""The default of a field with a tag, which is left out."""

_INT64_INT64: Final = struct.Struct(">qq")
NAMES_REMEMBERED: Final = 16_384
_member: Final = encoder(MemberMetadata)
_BYTES_OF: Final = attrgetter("written")

WrittenT = TypeVar("WrittenT", bound="Written")


def offset_commit_key(key: OffsetCommitKey) -> bytes:
    """Encode the key of one partition's committed offset; one request may hold 100,000."""
    return _text(key.group) + _text(key.topic) + _INT32.pack(key.partition)


def offset_commit(value: OffsetCommitValue) -> bytes:
    """Encode a committed offset in version 4, or in version 1 when it has an expiry time."""
    if value.expire_timestamp != -1:
        return b"".join(
            [
                _INT64.pack(value.offset),
                _string(value.metadata),
                _INT64_INT64.pack(value.commit_timestamp, value.expire_timestamp),
            ]
        )
    topic_id = value.topic_id
    return b"".join(
        [
            _INT64_INT32.pack(value.offset, value.leader_epoch),
            compact.string(value.metadata),
            _INT64.pack(value.commit_timestamp),
            _topic_id(topic_id) if topic_id else compact.NO_TAGS,
        ]
    )


def group_metadata(value: GroupMetadataValue) -> bytes:
    """Encode a classic group in version 3; each member's part is encoded once and cached with it.

    The record holds all members, so it is written again whenever one static member returns.
    """
    members = value.members
    return b"".join(
        [
            _string(value.protocol_type),
            _INT32.pack(value.generation),
            _string(value.protocol),
            _string(value.leader),
            _INT64.pack(value.current_state_timestamp),
            _INT32.pack(len(members)),
            *_written(members, _member),
        ]
    )


def _written(values: Sequence[WrittenT], write: Callable[[WrittenT], bytes]) -> list[bytes]:
    """Return the bytes of values that cache them."""
    try:
        return [*map(_BYTES_OF, values)]
    except AttributeError:
        for value in values:
            if not hasattr(value, "written"):
                object.__setattr__(value, "written", write(value))
        return [*map(_BYTES_OF, values)]


@lru_cache(maxsize=NAMES_REMEMBERED)
def _topic_id(topic_id: UUID) -> bytes:
    return b"\x01\x00\x10" + topic_id.bytes


@lru_cache(maxsize=NAMES_REMEMBERED)
def _text(name: str) -> bytes:
    return _string(name)


def _string(text: str | None) -> bytes:
    if text is None:
        return _NULL_STRING
    encoded = text.encode()
    return len(encoded).to_bytes(2, "big", signed=True) + encoded


def member_metadata(value: ConsumerGroupMemberMetadataValue) -> bytes:
    """Encode a member's metadata: a struct in a tagged field (kio cannot), and many names.

    Kafka leaves the struct out when it is empty, and writes a byte before it that marks a null.
    """
    classic = value.classic_member_metadata
    tags = compact.NO_TAGS
    if classic is None:
        tags = b"\x01\x00\x01\x00"
    elif classic != EMPTY_CLASSIC_METADATA:
        field = b"\x01" + encoder(ClassicMemberMetadata)(classic)
        tags = b"\x01\x00" + compact.uvarint(len(field)) + field
    return b"".join(
        [
            compact.string(value.instance_id),
            compact.string(value.rack_id),
            compact.string(value.client_id),
            compact.string(value.client_host),
            compact.names(value.subscribed_topic_names),
            compact.string(value.subscribed_topic_regex),
            value.rebalance_timeout_ms.to_bytes(4, "big", signed=True),
            compact.string(value.server_assignor),
            tags,
        ]
    )


def share_member_metadata(value: ShareGroupMemberMetadataValue) -> bytes:
    """Encode the metadata of a share group's member, which may read many topics."""
    return b"".join(
        [
            compact.string(value.rack_id),
            compact.string(value.client_id),
            compact.string(value.client_host),
            compact.names(value.subscribed_topic_names),
            compact.NO_TAGS,
        ]
    )


def share_snapshot_key(key: ShareSnapshotKey) -> bytes:
    """Encode the key of one partition's share state; a new group has thousands."""
    return b"".join(
        [
            _text(key.group_id),
            _uuid(key.topic_id),
            _INT32.pack(key.partition),
        ]
    )


def share_snapshot(value: ShareSnapshotValue) -> bytes:
    """Encode a partition's share state."""
    tags = compact.NO_TAGS
    if value.delivery_complete_count != NO_DELIVERY_COUNT:
        tags = b"\x01\x00\x04" + _INT32.pack(value.delivery_complete_count)
    return b"".join(
        [
            _SNAPSHOT.pack(
                value.snapshot_epoch,
                value.state_epoch,
                value.leader_epoch,
                value.start_offset,
                value.create_timestamp,
                value.write_timestamp,
            ),
            compact.uvarint(len(value.state_batches) + 1),
            *map(_share_state_batch, value.state_batches),
            tags,
        ]
    )


def _share_state_batch(batch: ShareStateBatch) -> bytes:
    return _BATCH.pack(
        batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count, 0
    )


def share_partitions(value: ShareGroupStatePartitionMetadataValue) -> bytes:
    """Encode which partitions of a share group have share state; there may be 100,000.

    Each topic is encoded once and cached: the record has all of them whenever one changes.
    """
    return b"".join(
        [
            *_share_topics(value.initializing_topics),
            *_share_topics(value.initialized_topics),
            compact.uvarint(len(value.deleting_topics) + 1),
            *(
                _uuid(each.topic_id) + compact.name(each.topic_name) + compact.NO_TAGS
                for each in value.deleting_topics
            ),
            compact.NO_TAGS,
        ]
    )


def _share_topics(topics: Sequence[ShareTopicPartitions]) -> list[bytes]:
    return [compact.uvarint(len(topics) + 1), *_written(topics, _share_topic)]


def _share_topic(topic: ShareTopicPartitions) -> bytes:
    partitions = topic.partitions
    return b"".join(
        [
            _uuid(topic.topic_id),
            compact.name(topic.topic_name),
            compact.uvarint(len(partitions) + 1),
            struct.pack(f">{len(partitions)}i", *partitions),
            compact.NO_TAGS,
        ]
    )


def _uuid(topic_id: UUID | None) -> bytes:
    return _NO_ID if topic_id is None else topic_id.bytes
