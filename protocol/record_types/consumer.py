"""Records of consumer groups (KIP-848)."""

import uuid

from protocol.wire.schema import Flexible, Legacy, entity, key, wire


@key
class ConsumerGroupMetadataKey(Legacy):
    """Type 3: the group epoch."""

    group_id: str = wire("string")


@entity
class ConsumerGroupMetadataValue(Flexible):
    """``metadata_hash`` covers the subscribed topics (KIP-1101)."""

    epoch: int = wire("int32")
    metadata_hash: int = wire("int64", default=0, tag=0)


@key
class ConsumerGroupPartitionMetadataKey(Legacy):
    """Type 4: topics as last seen; only tombstones of it are written since Kafka 4.1."""

    group_id: str = wire("string")


@entity
class ConsumerGroupPartitionRacks(Flexible):
    """The racks of one partition."""

    partition: int = wire("int32")
    racks: tuple[str, ...] = wire("string")


@entity
class ConsumerGroupTopicMetadata(Flexible):
    """One topic as last seen by the group."""

    topic_id: uuid.UUID | None = wire("uuid")
    topic_name: str = wire("string")
    num_partitions: int = wire("int32")
    partition_metadata: tuple[ConsumerGroupPartitionRacks, ...] = wire()


@entity
class ConsumerGroupPartitionMetadataValue(Flexible):
    """Replaced by ``metadata_hash`` of the group's metadata."""

    topics: tuple[ConsumerGroupTopicMetadata, ...] = wire()


@key
class ConsumerGroupMemberMetadataKey(Legacy):
    """Type 5: a member's metadata."""

    group_id: str = wire("string")
    member_id: str = wire("string")


@entity
class ClassicProtocol(Flexible):
    """A protocol that a classic member of a consumer group supports."""

    name: str = wire("string")
    metadata: bytes = wire("bytes")


@entity
class ClassicMemberMetadata(Flexible):
    """Kept while a member still uses the classic protocol (online migration)."""

    session_timeout_ms: int = wire("int32")
    supported_protocols: tuple[ClassicProtocol, ...] = wire()


EMPTY_CLASSIC_METADATA = ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())


@entity
class ConsumerGroupMemberMetadataValue(Flexible):
    """A member's subscription and client.

    ``classic_member_metadata`` is None for a member that uses the consumer protocol; Kafka writes
    that explicitly, and reads a missing field as an empty struct.
    """

    instance_id: str | None = wire("string")
    rack_id: str | None = wire("string")
    client_id: str = wire("string")
    client_host: str = wire("string")
    subscribed_topic_names: tuple[str, ...] = wire("string")
    subscribed_topic_regex: str | None = wire("string")
    rebalance_timeout_ms: int = wire("int32", default=-1)
    server_assignor: str | None = wire("string")
    classic_member_metadata: ClassicMemberMetadata | None = wire(
        default=None,
        tag=0,
        absent=EMPTY_CLASSIC_METADATA,
    )


@key
class ConsumerGroupTargetAssignmentMetadataKey(Legacy):
    """Type 6: the assignment epoch."""

    group_id: str = wire("string")


@entity
class ConsumerGroupTargetAssignmentMetadataValue(Flexible):
    """``assignment_timestamp``: when the assignor finished, Unix milliseconds (KIP-1263).

    ``arriving_epoch`` is our own field, which Kafka skips: the members' records of a target
    assignment of that epoch follow, and take effect only with the next record of this type.
    """

    assignment_epoch: int = wire("int32")
    assignment_timestamp: int = wire("int64", default=0, tag=0)
    arriving_epoch: int = wire("int32", default=0, tag=10_000)


@key
class ConsumerGroupTargetAssignmentMemberKey(Legacy):
    """Type 7: a member's target assignment."""

    group_id: str = wire("string")
    member_id: str = wire("string")


@entity
class TargetTopicPartitions(Flexible):
    """Partitions of one topic in a consumer or share group's target assignment."""

    topic_id: uuid.UUID | None = wire("uuid")
    partitions: tuple[int, ...] = wire("int32")


@entity
class ConsumerGroupTargetAssignmentMemberValue(Flexible):
    """A member's target assignment."""

    topic_partitions: tuple[TargetTopicPartitions, ...] = wire()


@key
class ConsumerGroupCurrentMemberAssignmentKey(Legacy):
    """Type 8: a member's current assignment."""

    group_id: str = wire("string")
    member_id: str = wire("string")


@entity
class CurrentTopicPartitions(Flexible):
    """``assignment_epochs``, when known, has one epoch per partition (fences zombie commits)."""

    topic_id: uuid.UUID | None = wire("uuid")
    partitions: tuple[int, ...] = wire("int32")
    assignment_epochs: tuple[int, ...] | None = wire("int32", default=(), tag=0)


@entity
class ConsumerGroupCurrentMemberAssignmentValue(Flexible):
    """A member's epochs, state and partitions."""

    member_epoch: int = wire("int32")
    previous_member_epoch: int = wire("int32")
    state: int = wire("int8")
    assigned_partitions: tuple[CurrentTopicPartitions, ...] = wire()
    partitions_pending_revocation: tuple[CurrentTopicPartitions, ...] = wire()


@key
class ConsumerGroupRegularExpressionKey(Legacy):
    """Type 16: a regular expression that members subscribe to."""

    group_id: str = wire("string")
    regular_expression: str = wire("string")


@entity
class ConsumerGroupRegularExpressionValue(Flexible):
    """The topics it resolved to, at which metadata version, when (Unix milliseconds)."""

    topics: tuple[str, ...] = wire("string")
    version: int = wire("int64")
    timestamp: int = wire("int64")
