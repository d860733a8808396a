"""The requests of members as messages, and the fields of the answers that members read.

A member decides what to send and handles the answers; the encoding is not its concern. Here
requests are messages, for tests, simulator and drills. A load generator that needs thousands of
members builds frames instead (:mod:`protocol.members.frames`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from protocol.members.assignors import ASSIGNORS, subscriber
from protocol.wire.embedded import (
    EmbeddedSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OwnedTopicPartitions,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.members.assignors import ClassicAssignor, LastAssigned
    from protocol.wire.embedded import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
GROUP_KEY: Final = 0  # FindCoordinator's key type of a group
UNCHANGED: Final = timedelta(milliseconds=-1)
NO_TOPIC: Final = UUID(int=0)
NO_SUBSCRIPTION: Final = EmbeddedSubscription(topics=())

FIND_COORDINATOR: Final = FindCoordinatorRequest.__api_key__
OFFSET_COMMIT: Final = OffsetCommitRequest.__api_key__
JOIN_GROUP: Final = JoinGroupRequest.__api_key__
SYNC_GROUP: Final = SyncGroupRequest.__api_key__
HEARTBEAT: Final = HeartbeatRequest.__api_key__
LEAVE_GROUP: Final = LeaveGroupRequest.__api_key__
CONSUMER_GROUP_HEARTBEAT: Final = ConsumerGroupHeartbeatRequest.__api_key__


@dataclass(frozen=True, slots=True)
class HeartbeatFields:
    """The content of a heartbeat: ``topics`` None: not sent; ``leaves``: nothing but that."""

    joins: bool
    everything: bool
    topics: tuple[str, ...] | None
    owned: bool
    leaves: bool = False


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


class AnyClassicConfig(AnyConfig, Protocol):
    """The settings that a classic group's member sends (times in milliseconds)."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it subscribes to."""

    @property
    def session_timeout_ms(self) -> int:
        """The time without a heartbeat after which it is removed."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that others wait for it to rejoin."""

    @property
    def assignor(self) -> ClassicAssignor:
        """The assignor that it offers, and that it runs as the leader."""


class AnyClassicMember(AnyMember, Protocol):
    """The state of a classic group's member that its requests contain."""

    @property
    def config(self) -> AnyClassicConfig:
        """The settings."""

    partitions_of: Mapping[str, int]
    partitions: tuple[TopicPartition, ...]
    last_assigned: LastAssigned


class AnyConsumerConfig(AnyConfig, Protocol):
    """The settings that a consumer group's member sends (times in milliseconds)."""

    @property
    def topic_regex(self) -> str | None:
        """The regular expression that it subscribes to."""

    @property
    def rack_id(self) -> str | None:
        """The rack that it is on."""

    @property
    def server_assignor(self) -> str | None:
        """The assignor that it asks for; None leaves the choice to the group."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that it may take to revoke partitions."""


class AnyConsumerMember(AnyMember, Protocol):
    """The state of a consumer group's member that its requests contain."""

    @property
    def config(self) -> AnyConsumerConfig:
        """The settings."""

    owned: Any
    topic_names: Mapping[UUID, str]


class MemberRequests(Protocol):
    """Builds the requests of all kinds of members: as messages, or as frames."""

    def find_coordinator(self, member: AnyMember) -> Any:
        """Ask any node for the coordinator of the member's group."""

    def commit(self, member: AnyMember, offsets: Mapping[TopicPartition, int]) -> Any:
        """Commit ``offsets`` in the member's generation or epoch."""


class MemberMessages:
    """The messages that members of all kinds send."""

    def find_coordinator(self, member: AnyMember) -> Any:
        """Ask any node for the coordinator of the member's group."""
        return FindCoordinatorRequest(
            key_type=GROUP_KEY, coordinator_keys=(member.config.group_id,)
        )

    def commit(self, member: AnyMember, offsets: Mapping[TopicPartition, int]) -> Any:
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


class ClassicMessages(MemberMessages):
    """The messages of a classic group's member."""

    def join(self, member: AnyClassicMember, reason: str) -> Any:
        """Join under the present member id; the first time there is none."""
        config = member.config
        subscription = ASSIGNORS[config.assignor].tells(config.topics, member)
        return JoinGroupRequest(
            group_id=config.group_id,
            session_timeout=timedelta(milliseconds=config.session_timeout_ms),
            rebalance_timeout=timedelta(milliseconds=config.rebalance_timeout_ms),
            member_id=member.member_id,
            group_instance_id=config.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=(
                JoinGroupRequestProtocol(
                    name=config.assignor, metadata=encode_subscription(subscription)
                ),
            ),
            reason=reason,
        )

    def sync(self, member: AnyClassicMember, protocol_name: str, assignments: Any) -> Any:
        """Fetch the assignment; the leader sends the assignments of all members."""
        return SyncGroupRequest(
            group_id=member.config.group_id,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.config.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocol_name,
            assignments=assignments,
        )

    def heartbeat(self, member: AnyClassicMember) -> Any:
        """Keep the member's session alive."""
        return HeartbeatRequest(
            group_id=member.config.group_id,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.config.instance_id,
        )

    def leave(self, member: AnyClassicMember, reason: str) -> Any:
        """Leave with a reason (KIP-800)."""
        return LeaveGroupRequest(
            group_id=member.config.group_id,
            members=(MemberIdentity(member_id=member.member_id, reason=reason),),
        )

    def subscribed(self, joined: Any) -> frozenset[str]:
        """Return the topics of all members of the group that the member leads."""
        found = (decode_subscription(each.metadata) for each in joined.members)
        return frozenset(topic for each in found if each for topic in each.topics)

    def assignments(self, member: AnyClassicMember, joined: Any) -> Any:
        """Compute the leader's assignments, which :meth:`sync` sends."""
        row = ASSIGNORS[member.config.assignor]
        subscribers = [
            subscriber(row, each, decode_subscription(each.metadata) or NO_SUBSCRIPTION)
            for each in joined.members
        ]
        return tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(owned))
            for member_id, owned in row.assign(subscribers, member.partitions_of).items()
        )

    def assigned(self, synced: Any) -> tuple[TopicPartition, ...]:
        """Return the partitions that a SyncGroup answer assigns."""
        return tuple(sorted(decode_assignment(synced.assignment) or ()))


class ConsumerMessages(MemberMessages):
    """The messages of a consumer group's member (KIP-848)."""

    nothing: Any = ()
    """The owned partitions of a member without any."""

    def heartbeat(self, member: AnyConsumerMember, tells: HeartbeatFields) -> Any:
        """Report what has changed since the last answered heartbeat: usually nothing."""
        config, everything = member.config, tells.everything
        regex = config.topic_regex
        if tells.joins and config.instance_id is not None:
            regex = regex or ""  # otherwise a predecessor's would stay in force
        rebalance_timeout = timedelta(milliseconds=config.rebalance_timeout_ms)
        return ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=member.member_id,
            member_epoch=member.generation,
            instance_id=config.instance_id,
            rack_id=config.rack_id if everything else None,
            rebalance_timeout=rebalance_timeout if everything else UNCHANGED,
            subscribed_topic_names=tells.topics,
            subscribed_topic_regex=regex if everything else None,
            server_assignor=config.server_assignor if everything else None,
            topic_partitions=() if tells.joins else member.owned if tells.owned else None,
        )

    def leave(self, member: AnyConsumerMember, epoch: int) -> Any:
        """Leave, permanently or (a static member) temporarily."""
        return ConsumerGroupHeartbeatRequest(
            group_id=member.config.group_id,
            member_id=member.member_id,
            member_epoch=epoch,
            instance_id=member.config.instance_id,
            topic_partitions=None,
        )

    def interval_ms(self, answer: Any) -> int:
        """Return the coordinator's heartbeat interval."""
        return milliseconds(answer.heartbeat_interval)

    def assigned(self, answer: Any) -> Any:
        """Return the assignment in an answer, in the form of a request; None: nothing new."""
        if answer.assignment is None:
            return None
        return tuple(
            OwnedTopicPartitions(topic_id=each.topic_id, partitions=tuple(each.partitions))
            for each in answer.assignment.topic_partitions
        )

    def partitions(self, member: AnyConsumerMember, owned: Any) -> tuple[TopicPartition, ...]:
        """Return the names of partitions that :meth:`assigned` returned."""
        names = member.topic_names
        return tuple(
            sorted(
                (names.get(each.topic_id or NO_TOPIC) or str(each.topic_id), partition)
                for each in owned
                for partition in each.partitions
            )
        )


def milliseconds(interval: timedelta) -> int:
    """Return a response's interval as a number."""
    return round(interval.total_seconds() * 1000)


CLASSIC_MESSAGES: Final = ClassicMessages()
CONSUMER_MESSAGES: Final = ConsumerMessages()
