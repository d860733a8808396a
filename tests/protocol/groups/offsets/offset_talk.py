"""A conversation with one shard about offsets, whomever they are committed by."""

from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Any

from protocol.groups.topics import Topic
from protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    Record,
)
from tests.protocol.groups.conversation import GROUP, Client, Conversation, topic_id

ORDERS = Topic(topic_id("orders"), "orders", 4)
AUDIT = Topic(topic_id("audit"), "audit", 2)
T0 = 1_700_000_000_000
MINUTE = 60_000
SUBSCRIBED_TO_ORDERS = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"
"""A ConsumerProtocolSubscription of version 0: the topic orders, no user data."""


@dataclass
class OffsetTalk(Conversation[Client]):
    """A leading shard, and the topics ``orders`` and ``audit``."""

    _: KW_ONLY
    topics: dict[str, int] = field(default_factory=lambda: {"orders": 4, "audit": 2})
    now: int = T0

    def replay(self, record: Record) -> None:
        """Find a record in the log, as after a reload."""
        self.shard.replay(record)
        self.records.append(record)

    def tombstones(self) -> list[Any]:
        return [record.key for record in self.records if record.value is None]


def group_record(
    members: int = 0,
    *,
    group: str = GROUP,
    protocol_type: str = "consumer",
    since_ms: int = T0,
    subscription: bytes = SUBSCRIBED_TO_ORDERS,
) -> Record:
    """A generation, 1, with so many members: m0 leads; m1 and so on follow."""
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        generation=1,
        protocol="range" if members else None,
        leader="m0" if members else None,
        current_state_timestamp=since_ms,
        members=tuple(
            MemberMetadata(
                member_id=f"m{number}",
                group_instance_id=None,
                client_id="client",
                client_host="/127.0.0.1",
                rebalance_timeout=30_000,
                session_timeout=10**9,
                subscription=subscription,
                assignment=b"",
            )
            for number in range(members)
        ),
    )
    return Record(GroupMetadataKey(group), value)


def key(topic: str, partition: int, group: str = GROUP) -> OffsetCommitKey:
    return OffsetCommitKey(group, topic, partition)


def milliseconds(count: int) -> timedelta:
    return timedelta(milliseconds=count)
