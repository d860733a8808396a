"""Administration operations of a few requests each: values in, values out, no printing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from actors.cli.client import ClientError, named
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actors.cli.client import Address, AdminClient
    from protocol.wire.embedded import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
"""Kafka's timestamps for the earliest and the latest offset of a partition."""

REMOVED: Final = "removed by an operator"
WORDS: Final[Mapping[int, str]] = {
    ErrorCode.unknown_member_id: "the member does not exist",
    ErrorCode.group_id_not_found: "the group does not exist",
    ErrorCode.non_empty_group: "the group has members; stop them first",
    ErrorCode.group_subscribed_to_topic: "members of the group are subscribed to the topic",
    ErrorCode.unknown_topic_or_partition: "the topic or partition does not exist",
    ErrorCode.topic_already_exists: "the topic already exists",
}


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed offset; ``leader_epoch`` is -1 if the client did not send one."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class StartOffset:
    """Where a share group starts in a partition; None: not known."""

    offset: int | None
    leader_epoch: int | None
    lag: int | None


def said(code: int, message: str | None = None) -> str:
    """Return an error as text (the server's message if we have none) with Kafka's name of it."""
    words = WORDS.get(code) or (message or "").rstrip(".")
    return f"{words} ({named(code)})" if words else named(code)


def _servers(code: int, message: str | None) -> str | None:
    """Return an error in the server's words, if it says any; None: there is no error."""
    if code == ErrorCode.none:
        return None
    return f"{message.rstrip('.')} ({named(code)})" if message else said(code)


def own_entry(
    client: AdminClient, address: Address, resource: tuple[int, str], key: str, refused: str
) -> str | None:
    """Return an entry that only a Rollcall node has, of a resource's type and name.

    None: the broker does not know it. ``refused`` begins the sentence if it refuses the resource.
    """
    resource_type, name = resource
    asked = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=(key,)
    )
    (result,) = client.ask_at(address, DescribeConfigsRequest(resources=(asked,))).results
    _check(result.error_code, refused, result.error_message)
    return next((entry.value or "" for entry in result.configs if entry.name == key), None)


def list_groups(client: AdminClient, states: Sequence[str], types: Sequence[str]) -> list[Any]:
    """Return the groups in these states and of these types (empty: all), sorted by name."""
    request = ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types))
    answers = client.ask_every(request, lambda answer: [answer.error_code])
    for answer in answers:
        _check(answer.error_code, "the groups could not be listed")
    return sorted((g for answer in answers for g in answer.groups), key=lambda g: str(g.group_id))


def committed_offsets(client: AdminClient, group_id: str) -> dict[TopicPartition, CommittedOffset]:
    """Return all committed offsets of the group."""
    wanted = OffsetFetchRequestGroup(
        group_id=group_id, member_id=None, member_epoch=-1, topics=None
    )
    request = OffsetFetchRequest(groups=(wanted,), require_stable=False)
    answer = client.ask_coordinator(
        group_id, request, lambda answer: [each.error_code for each in answer.groups]
    )
    (group,) = answer.groups
    _check(group.error_code, f"the offsets of group {group_id}")
    return {
        (topic.name, each.partition_index): CommittedOffset(
            each.committed_offset, each.committed_leader_epoch
        )
        for topic in group.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


def share_offsets(client: AdminClient, group_id: str) -> dict[TopicPartition, StartOffset]:
    """Return where each partition with share state starts, sorted."""
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=(wanted,))
    answer = client.ask_coordinator(
        group_id, request, lambda answer: [each.error_code for each in answer.groups]
    )
    (group,) = answer.groups
    _check(group.error_code, f"the offsets of group {group_id}")
    found = {
        (topic.topic_name, each.partition_index): StartOffset(
            *(None if value < 0 else value for value in _start(each))
        )
        for topic in group.topics
        for each in topic.partitions
        if each.error_code is ErrorCode.none
    }
    return dict(sorted(found.items()))


def alter_share_offsets(
    client: AdminClient, group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Set where a share group without members starts; a group that does not exist is created."""
    request = AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=tuple(
            AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=tuple(
                    AlterShareGroupOffsetsRequestPartition(
                        partition_index=number, start_offset=offsets[topic, number]
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in by_topic(offsets).items()
        ),
    )
    answer = client.ask_coordinator(group_id, request, lambda answer: [answer.error_code])
    _check(answer.error_code, f"group {group_id}", answer.error_message)
    for topic in answer.responses:
        for each in topic.partitions:
            what = f"group {group_id}, {topic.topic_name}-{each.partition_index}"
            _check(each.error_code, what, each.error_message)


def delete_share_offsets(
    client: AdminClient, group_id: str, topics: Sequence[str]
) -> dict[str, str | None]:
    """Delete the share state of whole topics; returns for each what is wrong, or None."""
    request = DeleteShareGroupOffsetsRequest(
        group_id=group_id,
        topics=tuple(DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics),
    )
    answer = client.ask_coordinator(group_id, request, lambda answer: [answer.error_code])
    _check(answer.error_code, f"group {group_id}", answer.error_message)
    return {
        str(each.topic_name): _servers(each.error_code, each.error_message)
        for each in answer.responses
    }


def delete_topics(client: AdminClient, names: Sequence[str]) -> dict[str, int]:
    """Delete topics; returns an error code for each."""
    wanted = tuple(DeleteTopicState(name=name, topic_id=None) for name in names)
    answer = client.ask(DeleteTopicsRequest(topics=wanted, timeout=timedelta(seconds=10)))
    return {str(each.name): each.error_code for each in answer.responses}


def _start(partition: Any) -> tuple[int, int, int]:
    """Return start offset, leader epoch and lag; without an offset nothing is known."""
    if partition.start_offset < 0:
        return (-1, -1, -1)
    return partition.start_offset, partition.leader_epoch, partition.lag


def offsets_at(
    client: AdminClient, partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """Return the earliest or latest offsets; partitions without a leader are left out."""
    wanted = sorted(set(partitions))
    metadata = client.metadata(sorted({topic for topic, _ in wanted}))
    addresses = {each.node_id: (each.host, each.port) for each in metadata.brokers}
    led_by: dict[int, list[TopicPartition]] = {}
    leaders = {
        (topic.name, each.partition_index): each.leader_id
        for topic in metadata.topics
        for each in topic.partitions
    }
    for partition in wanted:
        leader = leaders.get(partition, -1)
        if leader in addresses:
            led_by.setdefault(leader, []).append(partition)
    found: dict[TopicPartition, int] = {}
    for leader, led in led_by.items():
        answer = client.ask_at(addresses[leader], _list_offsets(led, timestamp))
        found |= {
            (topic.name, each.partition_index): each.offset
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code is ErrorCode.none
        }
    return found


def commit_offsets(
    client: AdminClient, group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Commit offsets for a group without members."""
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=tuple(
            OffsetCommitRequestTopic(
                topic_id=None,
                name=topic,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=offsets[topic, number],
                        committed_metadata="",
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in by_topic(offsets).items()
        ),
    )
    answer = client.ask_coordinator(group_id, request, _partition_codes)
    for topic in answer.topics:
        for each in topic.partitions:
            _check(each.error_code, f"group {group_id}, {topic.name}-{each.partition_index}")


def delete_offsets(
    client: AdminClient, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Delete committed offsets; returns an error code for each partition."""
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=tuple(OffsetDeleteRequestPartition(partition_index=n) for n in numbers),
            )
            for topic, numbers in by_topic(partitions).items()
        ),
    )
    answer = client.ask_coordinator(group_id, request, lambda answer: [answer.error_code])
    _check(answer.error_code, f"group {group_id}")
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


def delete_group(client: AdminClient, group_id: str) -> int:
    """Delete a group and its offsets; returns an error code."""
    request = DeleteGroupsRequest(groups_names=(group_id,))
    answer = client.ask_coordinator(
        group_id, request, lambda answer: [each.error_code for each in answer.results]
    )
    code: int = answer.results[0].error_code
    return code


def remove_members(
    client: AdminClient, group_id: str, members: Sequence[MemberIdentity]
) -> list[int]:
    """Remove members with one LeaveGroup (KIP-345); returns an error code for each."""
    answer = client.ask_coordinator(
        group_id,
        LeaveGroupRequest(group_id=group_id, members=tuple(members)),
        lambda answer: [answer.error_code],
    )
    _check(answer.error_code, f"group {group_id}")
    return [each.error_code for each in answer.members]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions by topic, both sorted."""
    gathered: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        gathered.setdefault(topic, []).append(number)
    return gathered


def _list_offsets(partitions: Iterable[TopicPartition], timestamp: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        timeout=timedelta(seconds=10),
        topics=tuple(
            ListOffsetsTopic(
                name=topic,
                partitions=tuple(
                    ListOffsetsPartition(partition_index=number, timestamp=timestamp)
                    for number in numbers
                ),
            )
            for topic, numbers in by_topic(partitions).items()
        ),
    )


def _partition_codes(answer: Any) -> list[int]:
    return [each.error_code for topic in answer.topics for each in topic.partitions]


def _check(code: int, what: str, message: str | None = None) -> None:
    if code != ErrorCode.none:
        raise ClientError(f"{what}: {said(code, message)}")
