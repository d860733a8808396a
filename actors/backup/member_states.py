"""The states of streams groups' members: Kafka numbers them from 1 in its log, and ours from 0.

Kafka numbers those of all other groups from 0. Our logs keep their numbers, as nodes of the last
release read them; what comes from a Kafka or goes to one is translated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from failover.partition_kinds import GROUPS
from protocol.groups.streams import task_records
from protocol.records import StreamsGroupCurrentMemberAssignmentKey, encode_key

if TYPE_CHECKING:
    from failover.partition_kinds import PartitionKind

_TYPE_BYTES: Final = 2
_TYPE: Final = encode_key(StreamsGroupCurrentMemberAssignmentKey("", ""))[:_TYPE_BYTES]


def of_kafka(kind: PartitionKind, key: bytes, value: bytes) -> bytes:
    """Return the value of a record that Kafka wrote as ours is."""
    return task_records.of_kafka(value) if _has_state(kind, key) else value


def to_kafka(kind: PartitionKind, key: bytes, value: bytes) -> bytes:
    """Return the value of a record of ours as Kafka writes it."""
    return task_records.to_kafka(value) if _has_state(kind, key) else value


def _has_state(kind: PartitionKind, key: bytes) -> bool:
    return kind is GROUPS and key[:_TYPE_BYTES] == _TYPE
