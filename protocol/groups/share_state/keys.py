"""Keys of share state: a group's partition, and which partition of the log has its state.

Kafka hashes ``group:topic:partition``, with the topic's id in its form for URLs
(``SharePartitionKey.asCoordinatorKey``).
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from protocol.java_hash import INT_MIN, java_string_hash

if TYPE_CHECKING:
    from collections.abc import Callable

UUID_TEXT_MAX: Final = 24
"""The most characters of a topic id: 16 bytes in base64, padded."""

UUID_BYTES: Final = 16
INT_MAX: Final = 0x7FFFFFFF


class SharePartition(NamedTuple):
    """Whose share state something is about. ``topic_id`` None: all its bits are 0."""

    group_id: str
    topic_id: UUID | None
    partition: int


def parse(key: str) -> SharePartition:
    """Read the key of a FindCoordinator request. Raises ValueError as Kafka refuses it.

    It is read from the right: a group's id may contain colons.
    """
    tokens = key.rstrip(":").split(":")  # Java's split drops empty strings at the end
    if len(tokens) < 3:
        raise ValueError("the key is not group:topic:partition")
    group_id = ":".join(tokens[:-2])
    if not group_id.strip():
        raise ValueError("the group id is empty")
    return SharePartition(group_id, _topic_id(tokens[-2]), _int32(tokens[-1]))


def _topic_id(text: str) -> UUID | None:
    if len(text) > UUID_TEXT_MAX:
        raise ValueError("the topic id is too long")
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise ValueError("the topic id is not in base64") from None
    if len(data) != UUID_BYTES:
        raise ValueError("the topic id does not have 16 bytes")
    return UUID(bytes=data) if any(data) else None


def _int32(text: str) -> int:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not digits.isdecimal():
        raise ValueError("the partition is not a number")
    number = int(text)
    if not INT_MIN <= number <= INT_MAX:
        raise ValueError("the partition is not an int32")
    return number


def partition_finder(group_id: str, topic_id: UUID | None, partitions: int) -> Callable[[int], int]:
    """Return a function from a topic's partition to the partition of the log with its share state.

    ``partitions`` is how many the log has. The part of the key that is the same is hashed once.
    """
    data = bytes(UUID_BYTES) if topic_id is None else topic_id.bytes
    text = urlsafe_b64encode(data).decode().rstrip("=")
    begun = java_string_hash(f"{group_id}:{text}:")

    def find(partition: int) -> int:
        value = java_string_hash(str(partition), begun)
        return 0 if value == INT_MIN else abs(value) % partitions

    return find


def partition_of(share: SharePartition, partitions: int) -> int:
    """Return the partition of the log that has the share state of a partition."""
    return partition_finder(share.group_id, share.topic_id, partitions)(share.partition)
