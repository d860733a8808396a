"""Records as Kafka's coordinators write them, for what watches them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from protocol.groups.topics import Topic
from protocol.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
    TargetTopicPartitions,
    encode,
)
from protocol.stories.sentence import sentence
from protocol.stories.teller import StoryTeller
from protocol.watching.watch import ClusterWatch
from protocol.wire.embedded import encode_assignment, encode_subscription

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.groups.facts import Fact
    from protocol.stories.story import RebalanceStory

NOW = 1_700_000_000_000
TOPIC = UUID(int=7)
SESSION_MS = 10_000


class Watched:
    """A cluster with the topic ``t`` of four partitions, whose records are written one by one."""

    def __init__(self) -> None:
        self.watch = ClusterWatch(session_timeout_ms=SESSION_MS)
        self.watch.outlook.topics.replace([Topic(TOPIC, "t", 4)])
        self.teller = StoryTeller(0)
        self.now = NOW
        self.stories: dict[tuple[int, int], RebalanceStory] = {}

    def write(self, *records: tuple[Any, Any]) -> None:
        """Write records at once."""
        for key, value in records:
            self.take(*encode(Record(key, value)))

    def take(self, key: bytes | None, value: bytes | None) -> None:
        self.tell(self.watch.take(key, value, self.now))

    def tell(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            for story in self.teller.tell(fact):
                self.stories[story.key] = story

    def commit(self, partition: int, offset: int = 5, topic_id: UUID | None = None) -> None:
        value = OffsetCommitValue(
            offset=offset, metadata="", commit_timestamp=self.now, topic_id=topic_id
        )
        self.write((OffsetCommitKey("g", "t", partition), value))

    def news(self) -> list[str]:
        """Take out the sentences of what was told since the last call; no more records come."""
        for _ in range(2):
            self.tell(self.watch.flush())
        told = [sentence(each).removeprefix("group g: ") for each in self.stories.values()]
        self.stories.clear()
        return told


# --- classic


def member(
    name: str,
    *partitions: int,
    topics: Iterable[str] = ("t",),
    instance: str | None = None,
    member_id: str = "",
    topic: str = "t",
) -> MemberMetadata:
    return MemberMetadata(
        member_id=member_id or f"id-of-{name}",
        group_instance_id=instance,
        client_id=name,
        client_host="/10.0.0.4",
        rebalance_timeout=60_000,
        session_timeout=SESSION_MS,
        subscription=encode_subscription(topics),
        assignment=encode_assignment([(topic, each) for each in partitions]),
    )


def generation(
    number: int, *members: MemberMetadata, since: int = -1, protocol: str = "range"
) -> tuple[Any, Any]:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=number,
        protocol=protocol if members else None,
        leader=members[0].member_id if members else None,
        current_state_timestamp=since,
        members=members,
    )
    return GroupMetadataKey("g"), value


# --- consumer


def joined(name: str, *, topics: tuple[str, ...] = ("t",), **fields: Any) -> tuple[Any, Any]:
    given: dict[str, Any] = {
        "instance_id": None,
        "rack_id": None,
        "client_id": name,
        "client_host": "/10.0.0.4",
        "subscribed_topic_names": topics,
        "subscribed_topic_regex": None,
        "rebalance_timeout_ms": 60_000,
        "server_assignor": None,
    }
    value = ConsumerGroupMemberMetadataValue(**{**given, **fields})
    return ConsumerGroupMemberMetadataKey("g", f"id-of-{name}"), value


def epoch(number: int, topics_hash: int = 1) -> tuple[Any, Any]:
    return ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(
        epoch=number, metadata_hash=topics_hash
    )


def targets(
    number: int, parts: Mapping[str, Iterable[int]], topic_id: UUID = TOPIC
) -> list[tuple[Any, Any]]:
    """Return the targets of members, and the assignment epoch."""
    rows: list[tuple[Any, Any]] = [
        (
            ConsumerGroupTargetAssignmentMemberKey("g", f"id-of-{name}"),
            ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=(
                    (TargetTopicPartitions(topic_id=topic_id, partitions=tuple(those)),)
                    if those
                    else ()
                )
            ),
        )
        for name, those in parts.items()
    ]
    done = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=number, assignment_timestamp=NOW
    )
    return [*rows, (ConsumerGroupTargetAssignmentMetadataKey("g"), done)]


def current(
    name: str,
    number: int,
    *partitions: int,
    state: int = 0,
    revoking: tuple[int, ...] = (),
    topic: UUID = TOPIC,
) -> tuple[Any, Any]:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=number,
        previous_member_epoch=max(number - 1, 0),
        state=state,
        assigned_partitions=_current(partitions, topic),
        partitions_pending_revocation=_current(revoking, topic),
    )
    return ConsumerGroupCurrentMemberAssignmentKey("g", f"id-of-{name}"), value


def _current(partitions: tuple[int, ...], topic: UUID) -> tuple[CurrentTopicPartitions, ...]:
    return (CurrentTopicPartitions(topic_id=topic, partitions=partitions),) if partitions else ()


def gone(name: str) -> list[tuple[Any, Any]]:
    """Return the tombstones of a member, in Kafka's order."""
    return [
        (ConsumerGroupCurrentMemberAssignmentKey("g", f"id-of-{name}"), None),
        (ConsumerGroupTargetAssignmentMemberKey("g", f"id-of-{name}"), None),
        (ConsumerGroupMemberMetadataKey("g", f"id-of-{name}"), None),
    ]
