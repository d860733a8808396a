"""What the leader of a streams group keeps for it; it is lost at failover."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.groups.streams.task_offsets import MemberTaskOffsets
    from protocol.wire.streams_messages import EndpointToPartitions


@dataclass(slots=True, eq=False)
class StreamsSoftState:
    """``endpoint_epoch``: the version of what members' endpoints serve; ``endpoints`` caches it.

    ``shutdown_member_id``: the member that asked the whole application to shut down.
    ``topic_errors`` are the reasons why internal topics could not be created, by name, with the
    time until which they are told (ms) and no other attempt is made. ``creating`` are the topics
    that are being created, with the time from which on they are tried again (ms).
    ``offsets`` are those of their tasks that members reported, by member.
    """

    endpoint_epoch: int = 0
    endpoints: dict[str, EndpointToPartitions] = field(default_factory=dict)
    shutdown_member_id: str | None = None
    topic_errors: dict[str, tuple[str, int]] = field(default_factory=dict)
    creating: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, MemberTaskOffsets] = field(default_factory=dict)
