"""Parts of messages that are encoded already: a record has the same bytes.

A member's assignment may have hundreds of topics. Kafka writes them alike in the member's record
and in its answer, so they are encoded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from protocol.wire.messages import ShareHeartbeatAssignment
from protocol.wire.readers import decoder

if TYPE_CHECKING:
    from protocol.wire.messages import ShareHeartbeatTopicPartitions

WRITTEN_STRUCTS: Final = frozenset({ShareHeartbeatAssignment})
"""The structs in whose place a message may have their bytes: each is a nullable field."""


class WrittenAssignment(ShareHeartbeatAssignment):
    """A share member's assignment by its bytes; who reads its topics decodes them."""

    __slots__ = ("written",)
    written: bytes

    def __init__(self, written: bytes) -> None:
        object.__setattr__(self, "written", written)

    @property
    def topic_partitions(self) -> tuple[ShareHeartbeatTopicPartitions, ...]:
        """The topics and their partitions."""
        decoded = decoder(ShareHeartbeatAssignment)(self.written, 0)
        topics: tuple[ShareHeartbeatTopicPartitions, ...] = decoded.topic_partitions
        return topics

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShareHeartbeatAssignment):
            return NotImplemented
        return self.topic_partitions == other.topic_partitions

    __hash__ = ShareHeartbeatAssignment.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return WrittenAssignment, (self.written,)
