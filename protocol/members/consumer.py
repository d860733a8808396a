"""A member of a consumer group (KIP-848), dynamic or static, without sockets and clock."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from protocol.members.client import MemberClient, Receivers
from protocol.members.error_actions import CONSUMER_ERROR_ACTIONS, ErrorAction
from protocol.members.heartbeating import JOIN_EPOCH, HeartbeatingMember
from protocol.members.requests import (
    CONSUMER_GROUP_HEARTBEAT,
    CONSUMER_MESSAGES,
    FIND_COORDINATOR,
    OFFSET_COMMIT,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from protocol.members.requests import ConsumerMessages
    from protocol.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberConfig:
    """A member's settings under Kafka's names; ``instance_id`` makes it static.

    It subscribes to ``topics``, or to those that match ``topic_regex``. ``server_assignor`` None
    leaves the choice to the group; ``heartbeat_interval_ms`` None uses the coordinator's interval.
    ``revocation_ms`` is what its application needs to give partitions up.
    """

    group_id: str
    topics: tuple[str, ...] = ()
    topic_regex: str | None = None
    client_id: str = "member"
    instance_id: str | None = None
    rack_id: str | None = None
    server_assignor: str | None = None
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int | None = None
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    revocation_ms: int = 0


class ConsumerMember(HeartbeatingMember):
    """One member's conversation with its coordinator.

    ``topic_names`` maps topic ids to names; its driver may replace it.
    """

    HEARTBEAT_API: ClassVar[int] = CONSUMER_GROUP_HEARTBEAT
    ERROR_ACTIONS: ClassVar[Mapping[ErrorCode, ErrorAction]] = CONSUMER_ERROR_ACTIONS
    RECEIVERS: ClassVar[Receivers] = {
        FIND_COORDINATOR: MemberClient._coordinator_found,
        CONSUMER_GROUP_HEARTBEAT: HeartbeatingMember._heartbeat_answered,
        OFFSET_COMMIT: MemberClient._committed,
    }

    def __init__(
        self,
        config: ConsumerMemberConfig,
        rng: random.Random,
        topic_names: Mapping[uuid.UUID, str],
        requests: ConsumerMessages = CONSUMER_MESSAGES,
    ) -> None:
        member_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        super().__init__(rng, member_id, requests)
        self.config: ConsumerMemberConfig = config
        self.topic_names = topic_names
        self.topics = config.topics

    def _told_topics(self) -> tuple[str, ...] | None:
        config = self.config
        is_static_join = self.generation == JOIN_EPOCH and config.instance_id is not None
        if is_static_join:  # otherwise a predecessor's would stay in force
            return self.topics
        is_told = self._tells_topics or config.topic_regex is None or bool(self.topics)
        return self.topics if is_told else None

    @property
    def _interval_ms(self) -> int | None:
        return self.config.heartbeat_interval_ms

    @property
    def _revocation_ms(self) -> int:
        return self.config.revocation_ms
