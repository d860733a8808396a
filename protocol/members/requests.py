"""The requests of a member, built from what it is and holds; all but two are a classic one's."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from protocol.wire.embedded import encode_subscription
from protocol.wire.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.members.classic import ClassicMember
    from protocol.wire.embedded import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
PROTOCOL_NAME: Final = "range"
GROUP_KEY: Final = 0  # FindCoordinator's key type of a group


class AnyConfig(Protocol):
    """The settings that members of all kinds have."""

    @property
    def group_id(self) -> str:
        """The group."""

    @property
    def instance_id(self) -> str | None:
        """The static member's id."""


class AnyMember(Protocol):
    """A member of any kind; ``generation`` is a consumer group member's epoch."""

    @property
    def config(self) -> AnyConfig:
        """The settings."""

    member_id: str
    generation: int


def find_coordinator(member: AnyMember) -> FindCoordinatorRequest:
    """Ask any node who coordinates the member's group."""
    return FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=(member.config.group_id,))


def join(member: ClassicMember, reason: str) -> JoinGroupRequest:
    """Join under the member id held so far; the first time there is none."""
    config = member.config
    subscription = encode_subscription(config.topics)
    return JoinGroupRequest(
        group_id=config.group_id,
        session_timeout=timedelta(milliseconds=config.session_timeout_ms),
        rebalance_timeout=timedelta(milliseconds=config.rebalance_timeout_ms),
        member_id=member.member_id,
        group_instance_id=config.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=(JoinGroupRequestProtocol(name=PROTOCOL_NAME, metadata=subscription),),
        reason=reason,
    )


def sync(
    member: ClassicMember, protocol_name: str, assignments: tuple[SyncGroupRequestAssignment, ...]
) -> SyncGroupRequest:
    """Fetch the assignment; the leader brings everybody's."""
    return SyncGroupRequest(
        group_id=member.config.group_id,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.config.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_name,
        assignments=assignments,
    )


def heartbeat(member: ClassicMember) -> HeartbeatRequest:
    """Say that the member lives."""
    return HeartbeatRequest(
        group_id=member.config.group_id,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.config.instance_id,
    )


def commit(member: AnyMember, offsets: Mapping[TopicPartition, int]) -> OffsetCommitRequest:
    """Commit ``offsets`` in the member's generation."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in sorted(offsets.items()):
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=""
            )
        )
    return OffsetCommitRequest(
        group_id=member.config.group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.config.instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(name=name, topic_id=None, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )


def leave(member: ClassicMember, reason: str) -> LeaveGroupRequest:
    """Leave, saying why (KIP-800)."""
    return LeaveGroupRequest(
        group_id=member.config.group_id,
        members=(MemberIdentity(member_id=member.member_id, reason=reason),),
    )
