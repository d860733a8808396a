"""Records of share groups (KIP-932)."""

import uuid

from protocol.record_types.classic import Written
from protocol.record_types.consumer import TargetTopicPartitions
from protocol.wire.schema import Flexible, Legacy, entity, key, wire


@key
class ShareGroupMemberMetadataKey(Legacy):
    """Type 10: a member's metadata."""

    group_id: str = wire("string")
    member_id: str = wire("string")


@entity
class ShareGroupMemberMetadataValue(Flexible):
    """A member's subscription and client."""

    rack_id: str | None = wire("string")
    client_id: str = wire("string")
    client_host: str = wire("string")
    subscribed_topic_names: tuple[str, ...] = wire("string")


@key
class ShareGroupMetadataKey(Legacy):
    """Type 11: the group epoch."""

    group_id: str = wire("string")


@entity
class ShareGroupMetadataValue(Flexible):
    """``metadata_hash`` covers the subscribed topics."""

    epoch: int = wire("int32")
    metadata_hash: int = wire("int64")


@key
class ShareGroupTargetAssignmentMetadataKey(Legacy):
    """Type 12: the assignment epoch."""

    group_id: str = wire("string")


@entity
class ShareGroupTargetAssignmentMetadataValue(Flexible):
    """``assignment_timestamp``: when the assignor finished, Unix milliseconds (KIP-1263).

    ``arriving_epoch`` is our own, as in ``ConsumerGroupTargetAssignmentMetadataValue``.
    """

    assignment_epoch: int = wire("int32")
    assignment_timestamp: int = wire("int64", default=0, tag=0)
    arriving_epoch: int = wire("int32", default=0, tag=10_000)


@key
class ShareGroupTargetAssignmentMemberKey(Legacy):
    """Type 13: a member's target assignment."""

    group_id: str = wire("string")
    member_id: str = wire("string")


@entity
class ShareGroupTargetAssignmentMemberValue(Flexible):
    """A member's target assignment."""

    topic_partitions: tuple[TargetTopicPartitions, ...] = wire()


@key
class ShareGroupCurrentMemberAssignmentKey(Legacy):
    """Type 14: a member's current assignment."""

    group_id: str = wire("string")
    member_id: str = wire("string")


@entity
class ShareGroupCurrentMemberAssignmentValue(Flexible):
    """A member's epochs, state and partitions."""

    member_epoch: int = wire("int32")
    previous_member_epoch: int = wire("int32")
    state: int = wire("int8")
    assigned_partitions: tuple[TargetTopicPartitions, ...] = wire()


@key
class ShareGroupStatePartitionMetadataKey(Legacy):
    """Type 15: the progress of each topic's share state."""

    group_id: str = wire("string")


@entity
class ShareTopicPartitions(Flexible, Written):
    """Partitions of a topic whose share state exists or is being created."""

    topic_id: uuid.UUID | None = wire("uuid")
    topic_name: str = wire("string")
    partitions: tuple[int, ...] = wire("int32")


@entity
class ShareTopic(Flexible):
    """A topic whose share state is being deleted."""

    topic_id: uuid.UUID | None = wire("uuid")
    topic_name: str = wire("string")


@entity
class ShareGroupStatePartitionMetadataValue(Flexible):
    """Topics by the progress of their share state."""

    initializing_topics: tuple[ShareTopicPartitions, ...] = wire()
    initialized_topics: tuple[ShareTopicPartitions, ...] = wire()
    deleting_topics: tuple[ShareTopic, ...] = wire()
