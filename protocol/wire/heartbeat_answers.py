"""ConsumerGroupHeartbeat's answer as bytes; both versions have the same.

A member's assignment names dozens of topics: kio takes five times as long. A test holds the bytes
to be the same.
"""

from __future__ import annotations

from datetime import timedelta
from struct import Struct, pack
from typing import TYPE_CHECKING, Final

from protocol.wire.compact import NO_TAGS, string, uvarint

if TYPE_CHECKING:
    from protocol.wire.messages import ConsumerGroupHeartbeatResponse, HeartbeatAssignment

_FIRST: Final = Struct(">ih")
_MIDDLE: Final = Struct(">ii")
_ONE_PARTITION: Final = Struct(">Bib").pack
_NO_ID: Final = bytes(16)
_MS: Final = timedelta(milliseconds=1)


def write_heartbeat_answer(message: ConsumerGroupHeartbeatResponse) -> bytes:
    """Write the answer, as of version 0 and 1."""
    assignment = message.assignment
    return b"".join(
        [
            _FIRST.pack(message.throttle_time // _MS, message.error_code),
            string(message.error_message),
            string(message.member_id),
            _MIDDLE.pack(message.member_epoch, message.heartbeat_interval // _MS),
            b"\xff" if assignment is None else _assignment(assignment),
            NO_TAGS,
        ]
    )


def _assignment(assignment: HeartbeatAssignment) -> bytes:
    topics = assignment.topic_partitions
    parts = [b"\x01", uvarint(len(topics) + 1)]
    for topic in topics:
        partitions = topic.partitions
        parts.append(_NO_ID if topic.topic_id is None else topic.topic_id.bytes)
        if len(partitions) == 1:
            parts.append(_ONE_PARTITION(2, partitions[0], 0))
        else:
            parts += (
                uvarint(len(partitions) + 1),
                pack(f">{len(partitions)}i", *partitions),
                NO_TAGS,
            )
    parts.append(NO_TAGS)
    return b"".join(parts)
