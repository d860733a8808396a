"""A member of a share group (KIP-932), without sockets and clock.

Several members may hold one partition, and none is ever asked back before another gets it: so a
heartbeat does not report what the member owns. After each new assignment the member heartbeats at
once, as Kafka's share consumer does. There are no static members, and no committed offsets.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from protocol.members.client import MemberClient, Receivers
from protocol.members.error_actions import SHARE_ERROR_ACTIONS, ErrorAction
from protocol.members.heartbeating import HeartbeatingMember
from protocol.members.requests import (
    FIND_COORDINATOR,
    NO_TOPIC,
    HeartbeatFields,
    MemberMessages,
    milliseconds,
)
from protocol.wire.messages import ShareGroupHeartbeatRequest, ShareHeartbeatTopicPartitions

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from protocol.wire.embedded import TopicPartition
    from protocol.wire.errors import ErrorCode

SHARE_GROUP_HEARTBEAT: Final = ShareGroupHeartbeatRequest.__api_key__


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberConfig:
    """A member's settings under Kafka's names; ``instance_id`` is None: no member is static.

    ``heartbeat_interval_ms`` None uses the coordinator's interval.
    """

    group_id: str
    topics: tuple[str, ...]
    client_id: str = "member"
    instance_id: None = None
    rack_id: str | None = None
    heartbeat_interval_ms: int | None = None
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


class ShareMessages(MemberMessages):
    """The messages of a share group's member."""

    nothing: Any = ()
    """The partitions of a member without any."""

    def heartbeat(self, member: ShareMember, tells: HeartbeatFields) -> Any:
        """Report what has changed since the last answered heartbeat: usually nothing."""
        config = member.config
        return ShareGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=member.member_id,
            member_epoch=member.generation,
            rack_id=config.rack_id if tells.everything else None,
            subscribed_topic_names=tells.topics,
        )

    def leave(self, member: ShareMember, epoch: int) -> Any:
        """Leave permanently."""
        return ShareGroupHeartbeatRequest(
            group_id=member.config.group_id, member_id=member.member_id, member_epoch=epoch
        )

    def interval_ms(self, answer: Any) -> int:
        """Return the coordinator's heartbeat interval."""
        return milliseconds(answer.heartbeat_interval)

    def assigned(self, answer: Any) -> tuple[ShareHeartbeatTopicPartitions, ...] | None:
        """Return the assignment in an answer; None: nothing new."""
        return None if answer.assignment is None else tuple(answer.assignment.topic_partitions)

    def partitions(
        self, member: ShareMember, owned: tuple[ShareHeartbeatTopicPartitions, ...]
    ) -> tuple[TopicPartition, ...]:
        """Return the names of partitions that :meth:`assigned` returned."""
        names = member.topic_names
        return tuple(
            sorted(
                (names.get(each.topic_id or NO_TOPIC) or str(each.topic_id), partition)
                for each in owned
                for partition in each.partitions
            )
        )


SHARE_MESSAGES: Final = ShareMessages()


class ShareMember(HeartbeatingMember):
    """One member's conversation with its coordinator.

    ``topic_names`` maps topic ids to names; its driver may replace it.
    """

    HEARTBEAT_API: ClassVar[int] = SHARE_GROUP_HEARTBEAT
    ERROR_ACTIONS: ClassVar[Mapping[ErrorCode, ErrorAction]] = SHARE_ERROR_ACTIONS
    RECEIVERS: ClassVar[Receivers] = {
        FIND_COORDINATOR: MemberClient._coordinator_found,
        SHARE_GROUP_HEARTBEAT: HeartbeatingMember._heartbeat_answered,
    }

    def __init__(
        self,
        config: ShareMemberConfig,
        rng: random.Random,
        topic_names: Mapping[uuid.UUID, str],
        requests: ShareMessages = SHARE_MESSAGES,
    ) -> None:
        member_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        super().__init__(rng, member_id, requests)
        self.config: ShareMemberConfig = config
        self.topic_names = topic_names
        self.topics = config.topics

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Send nothing: a share group acknowledges records, and commits no offsets."""

    def _told_topics(self) -> tuple[str, ...] | None:
        return self.topics

    @property
    def _interval_ms(self) -> int | None:
        return self.config.heartbeat_interval_ms
