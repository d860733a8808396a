"""Requests in their newest shapes, short enough to read a conversation."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from protocol.wire import messages as m

NO_TOPIC_ID = UUID(int=0)
SECONDS_30 = timedelta(seconds=30)


def join(
    group: str, member_id: str = "", instance: str | None = None, metadata: bytes = b"sub"
) -> m.JoinGroupRequest:
    return m.JoinGroupRequest(
        group_id=group,
        session_timeout=SECONDS_30,
        rebalance_timeout=SECONDS_30,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=(m.JoinGroupRequestProtocol(name="range", metadata=metadata),),
    )


def sync(
    group: str, generation: int, member_id: str, assignments: dict[str, bytes] | None = None
) -> m.SyncGroupRequest:
    return m.SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=tuple(
            m.SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in (assignments or {}).items()
        ),
    )


def heartbeat(
    group: str, generation: int, member_id: str, instance: str | None = None
) -> m.HeartbeatRequest:
    return m.HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
    )


def commit(
    group: str, offset: int, topic: str = "t", partition: int = 0, **member: Any
) -> m.OffsetCommitRequest:
    return m.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=member.get("generation", -1),
        member_id=member.get("member_id", ""),
        group_instance_id=member.get("instance"),
        topics=(
            m.OffsetCommitRequestTopic(
                topic_id=NO_TOPIC_ID,
                name=topic,
                partitions=(
                    m.OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=""
                    ),
                ),
            ),
        ),
    )


def fetch(*groups: str) -> m.OffsetFetchRequest:
    return m.OffsetFetchRequest(
        groups=tuple(m.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups)
    )


def offsets_in(response: Any) -> dict[str, dict[tuple[str, int], int]]:
    """Return what an OffsetFetch answer says: group → (topic, partition) → offset."""
    return {
        group.group_id: {
            (topic.name, row.partition_index): row.committed_offset
            for topic in group.topics
            for row in topic.partitions
        }
        for group in response.groups
    }


def create_topics(*names: str, partitions: int = 1) -> m.CreateTopicsRequest:
    topics = tuple(
        m.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
        )
        for name in names
    )
    return m.CreateTopicsRequest(topics=topics)


def delete_topics(*names: str) -> m.DeleteTopicsRequest:
    topics = tuple(m.DeleteTopicState(name=name, topic_id=None) for name in names)
    return m.DeleteTopicsRequest(topics=topics, timeout=SECONDS_30)


def set_broker_config(name: str, value: str) -> m.IncrementalAlterConfigsRequest:
    """Set a cluster-wide dynamic config."""
    config = m.AlterableConfig(name=name, config_operation=0, value=value)
    resource = m.AlterConfigsResource(resource_type=4, resource_name="", configs=(config,))
    return m.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def records_of(topic: str, topic_id: UUID, max_wait_ms: int = 500) -> m.FetchRequest:
    """Poll the first partition of a topic for records."""
    partition = m.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    wanted = m.FetchTopic(topic_id=topic_id, partitions=(partition,), topic=topic)
    return m.FetchRequest(
        max_wait=timedelta(milliseconds=max_wait_ms), min_bytes=1, topics=(wanted,),
        forgotten_topics_data=(),
    )  # fmt: skip
