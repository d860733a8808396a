"""Records of share groups as Kafka's coordinators write them, for what watches them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareTopic,
    ShareTopicPartitions,
    TargetTopicPartitions,
)
from tests.protocol.watching.records import NOW

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    Partitions = Iterable[tuple[UUID, int]]
    States = Mapping[UUID, tuple[str, set[int]]]


def joined(
    name: str, topics: Iterable[str] = ("t",), host: str = "/10.0.0.4"
) -> list[tuple[Any, Any]]:
    value = ShareGroupMemberMetadataValue(
        rack_id=None, client_id=name, client_host=host, subscribed_topic_names=tuple(topics)
    )
    return [(ShareGroupMemberMetadataKey("g", f"id-of-{name}"), value)]


def epoch(number: int, topics_hash: int = 1) -> list[tuple[Any, Any]]:
    value = ShareGroupMetadataValue(epoch=number, metadata_hash=topics_hash)
    return [(ShareGroupMetadataKey("g"), value)]


def targets(
    number: int, parts: Mapping[str, Partitions], time_ms: int = NOW
) -> list[tuple[Any, Any]]:
    """Return the targets of members, and the assignment epoch; Kafka 4.2 has no times (0)."""
    rows: list[tuple[Any, Any]] = [
        (
            ShareGroupTargetAssignmentMemberKey("g", f"id-of-{name}"),
            ShareGroupTargetAssignmentMemberValue(topic_partitions=_by_topic(those)),
        )
        for name, those in parts.items()
    ]
    done = ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=number, assignment_timestamp=time_ms
    )
    return [*rows, (ShareGroupTargetAssignmentMetadataKey("g"), done)]


def current(name: str, number: int, partitions: Partitions) -> list[tuple[Any, Any]]:
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=number,
        previous_member_epoch=max(number - 1, 0),
        state=0,
        assigned_partitions=_by_topic(partitions),
    )
    return [(ShareGroupCurrentMemberAssignmentKey("g", f"id-of-{name}"), value)]


def gone(name: str) -> list[tuple[Any, Any]]:
    """Return the tombstones of a member, in Kafka's order."""
    return [
        (ShareGroupCurrentMemberAssignmentKey("g", f"id-of-{name}"), None),
        (ShareGroupTargetAssignmentMemberKey("g", f"id-of-{name}"), None),
        (ShareGroupMemberMetadataKey("g", f"id-of-{name}"), None),
    ]


def state(
    initializing: States, initialized: States, deleting: Mapping[UUID, str] | None = None
) -> list[tuple[Any, Any]]:
    """Return which partitions have share state, or get or lose it."""

    def rows(states: States) -> tuple[ShareTopicPartitions, ...]:
        return tuple(
            ShareTopicPartitions(topic_id=each, topic_name=name, partitions=tuple(sorted(those)))
            for each, (name, those) in states.items()
        )

    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=rows(initializing),
        initialized_topics=rows(initialized),
        deleting_topics=tuple(
            ShareTopic(topic_id=each, topic_name=name) for each, name in (deleting or {}).items()
        ),
    )
    return [(ShareGroupStatePartitionMetadataKey("g"), value)]


def removed() -> list[tuple[Any, Any]]:
    """Return the tombstones of a group without members, in Kafka's order."""
    return [
        (ShareGroupTargetAssignmentMetadataKey("g"), None),
        (ShareGroupStatePartitionMetadataKey("g"), None),
        (ShareGroupMetadataKey("g"), None),
    ]


def _by_topic(partitions: Partitions) -> tuple[TargetTopicPartitions, ...]:
    found: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(partitions, key=str):
        found.setdefault(topic_id, []).append(partition)
    return tuple(
        TargetTopicPartitions(topic_id=each, partitions=tuple(those))
        for each, those in found.items()
    )
