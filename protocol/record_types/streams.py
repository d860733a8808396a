"""Records of streams groups (KIP-1071)."""

from protocol.wire.schema import Flexible, Legacy, entity, key, wire


@entity
class StreamsKeyValue(Flexible):
    """A name and its value: client tags, topic configs, assignment configs."""

    key: str = wire("string")
    value: str = wire("string")


@key
class StreamsGroupMetadataKey(Legacy):
    """Type 17: the group epoch."""

    group_id: str = wire("string")


@entity
class StreamsGroupMetadataValue(Flexible):
    """``validated_topology_epoch``: the topology whose topics were found to be valid."""

    epoch: int = wire("int32")
    metadata_hash: int = wire("int64")
    validated_topology_epoch: int = wire("int32", default=-1, tag=0)
    last_assignment_configs: tuple[StreamsKeyValue, ...] | None = wire(default=(), tag=1)


@key
class StreamsGroupMemberMetadataKey(Legacy):
    """Type 19: a member's metadata."""

    group_id: str = wire("string")
    member_id: str = wire("string")


@entity
class StreamsEndpoint(Flexible):
    """Where a member answers interactive queries."""

    host: str = wire("string")
    port: int = wire("uint16")


@entity
class StreamsGroupMemberMetadataValue(Flexible):
    """A member's client, process and tags."""

    instance_id: str | None = wire("string")
    rack_id: str | None = wire("string")
    client_id: str = wire("string")
    client_host: str = wire("string")
    rebalance_timeout_ms: int = wire("int32", default=-1)
    topology_epoch: int = wire("int32")
    process_id: str = wire("string")
    user_endpoint: StreamsEndpoint | None = wire(default=None)
    client_tags: tuple[StreamsKeyValue, ...] = wire()


@key
class StreamsGroupTargetAssignmentMetadataKey(Legacy):
    """Type 20: the assignment epoch."""

    group_id: str = wire("string")


@entity
class StreamsGroupTargetAssignmentMetadataValue(Flexible):
    """``assignment_timestamp``: when the assignor finished, Unix milliseconds (KIP-1263).

    ``arriving_epoch`` is our own, as in ``ConsumerGroupTargetAssignmentMetadataValue``.
    """

    assignment_epoch: int = wire("int32")
    assignment_timestamp: int = wire("int64", default=0, tag=0)
    arriving_epoch: int = wire("int32", default=0, tag=10_000)


@key
class StreamsGroupTargetAssignmentMemberKey(Legacy):
    """Type 21: a member's target assignment."""

    group_id: str = wire("string")
    member_id: str = wire("string")


@entity
class TargetTaskIds(Flexible):
    """Tasks of one subtopology in the target assignment."""

    subtopology_id: str = wire("string")
    partitions: tuple[int, ...] = wire("int32")


@entity
class StreamsGroupTargetAssignmentMemberValue(Flexible):
    """A member's target tasks by role."""

    active_tasks: tuple[TargetTaskIds, ...] = wire()
    standby_tasks: tuple[TargetTaskIds, ...] = wire()
    warmup_tasks: tuple[TargetTaskIds, ...] = wire()


@key
class StreamsGroupCurrentMemberAssignmentKey(Legacy):
    """Type 22: a member's current assignment."""

    group_id: str = wire("string")
    member_id: str = wire("string")


@entity
class CurrentTaskIds(Flexible):
    """``assignment_epochs``, one per partition, is kept for active tasks only."""

    subtopology_id: str = wire("string")
    partitions: tuple[int, ...] = wire("int32")
    assignment_epochs: tuple[int, ...] | None = wire("int32", default=(), tag=0)


@entity
class StreamsGroupCurrentMemberAssignmentValue(Flexible):
    """A member's epochs, state and tasks by role."""

    member_epoch: int = wire("int32")
    previous_member_epoch: int = wire("int32")
    state: int = wire("int8")
    active_tasks: tuple[CurrentTaskIds, ...] = wire()
    standby_tasks: tuple[CurrentTaskIds, ...] = wire()
    warmup_tasks: tuple[CurrentTaskIds, ...] = wire()
    active_tasks_pending_revocation: tuple[CurrentTaskIds, ...] = wire()
    standby_tasks_pending_revocation: tuple[CurrentTaskIds, ...] = wire()
    warmup_tasks_pending_revocation: tuple[CurrentTaskIds, ...] = wire()


@key
class StreamsGroupTopologyKey(Legacy):
    """Type 23: the group's topology."""

    group_id: str = wire("string")


@entity
class CopartitionGroup(Flexible):
    """Topics that must be partitioned alike, as indexes into the subtopology's arrays."""

    source_topics: tuple[int, ...] = wire("int16")
    source_topic_regex: tuple[int, ...] = wire("int16")
    repartition_source_topics: tuple[int, ...] = wire("int16")


@entity
class StreamsTopicInfo(Flexible):
    """An internal topic; 0 partitions or replicas leave the choice to the cluster."""

    name: str = wire("string")
    partitions: int = wire("int32")
    replication_factor: int = wire("int16")
    topic_configs: tuple[StreamsKeyValue, ...] = wire()


@entity
class StreamsSubtopology(Flexible):
    """A part of the topology that runs as one task per partition."""

    subtopology_id: str = wire("string")
    source_topics: tuple[str, ...] = wire("string")
    source_topic_regex: tuple[str, ...] = wire("string")
    state_changelog_topics: tuple[StreamsTopicInfo, ...] = wire()
    repartition_sink_topics: tuple[str, ...] = wire("string")
    repartition_source_topics: tuple[StreamsTopicInfo, ...] = wire()
    copartition_groups: tuple[CopartitionGroup, ...] = wire()


@entity
class StreamsGroupTopologyValue(Flexible):
    """The topology at an epoch."""

    epoch: int = wire("int32")
    subtopologies: tuple[StreamsSubtopology, ...] = wire()
