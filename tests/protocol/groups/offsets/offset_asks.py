"""A shard asked about offsets, in few words."""

import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from protocol.config import Configs
from protocol.groups.effects import ClientInfo, Elected, Request, Result, TimersDue
from protocol.groups.shard import GroupShard
from protocol.groups.topics import Topic, Topics
from protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    Record,
)
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode

ORDERS = Topic(UUID(int=1), "orders", 4)
AUDIT = Topic(UUID(int=2), "audit", 2)
CLIENT = ClientInfo("client", "/127.0.0.1")
T0 = 1_700_000_000_000
MINUTE = 60_000
SUBSCRIBED_TO_ORDERS = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"
"""A ConsumerProtocolSubscription of version 0: the topic orders, no user data."""

Offsets = Mapping[tuple[str, int], tuple[int, str]]


class Asker:
    """A leading shard; ``state`` is what its log holds (last value per key)."""

    def __init__(self, **configs: str) -> None:
        names = {name.replace("_", "."): text for name, text in configs.items()}
        self.now = T0
        self.shard = GroupShard(Configs(names), Topics([ORDERS, AUDIT]), random.Random(1))
        self.records: list[Record] = []
        self.facts: list[Any] = []
        self.do(Elected())

    def do(self, event: Any) -> Result:
        result = self.shard.handle(event, self.now)
        self.records += result.records
        self.facts += result.facts
        return result

    def ask(self, api_key: int, api_version: int, message: Any) -> Any:
        request = Request(
            ticket=1, api_key=api_key, api_version=api_version, client=CLIENT, message=message
        )
        (reply,) = self.do(request).replies
        return reply.message

    def wait(self, ms: int) -> None:
        """Let time pass in the steps that the shard asks for."""
        until = self.now + ms
        while (due := self.shard.next_deadline()) is not None and due <= until:
            self.now = max(due, self.now)
            self.do(TimersDue())
        self.now = until

    def replay(self, record: Record) -> None:
        """Find a record in the log, as after a reload."""
        self.shard.replay(record)
        self.records.append(record)

    def commit(
        self,
        topic: str | UUID,
        *partitions: tuple[int, int, str | None],
        group: str = "group",
        version: int = 9,
        **fields: Any,
    ) -> list[ErrorCode]:
        """Commit (partition, offset, metadata)s; return the errors."""
        request = m.OffsetCommitRequest(
            group_id=group,
            member_id=fields.pop("member_id", ""),
            topics=(
                m.OffsetCommitRequestTopic(
                    topic_id=topic if isinstance(topic, UUID) else None,
                    name=topic if isinstance(topic, str) else "",
                    partitions=tuple(
                        m.OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_leader_epoch=fields.get("leader_epoch", -1),
                            committed_metadata=metadata,
                        )
                        for index, offset, metadata in partitions
                    ),
                ),
            ),
            **{name: value for name, value in fields.items() if name != "leader_epoch"},
        )
        answer = self.ask(8, version, request)
        return [one.error_code for topic in answer.topics for one in topic.partitions]

    def fetch(
        self,
        topics: Mapping[str | UUID, Sequence[int]] | None = None,
        group: str = "group",
        version: int = 9,
    ) -> Any:
        """Return the answer's one group."""
        asked = None
        if topics is not None:
            asked = tuple(
                m.OffsetFetchRequestTopics(
                    topic_id=topic if isinstance(topic, UUID) else None,
                    name=topic if isinstance(topic, str) else "",
                    partition_indexes=tuple(indexes),
                )
                for topic, indexes in topics.items()
            )
        group_asked = m.OffsetFetchRequestGroup(group_id=group, topics=asked)
        (answer,) = self.ask(9, version, m.OffsetFetchRequest(groups=(group_asked,))).groups
        return answer

    def offsets(self, group: str = "group") -> Offsets:
        """Return all that a group has committed."""
        return {
            (topic.name, one.partition_index): (one.committed_offset, one.metadata)
            for topic in self.fetch(group=group).topics
            for one in topic.partitions
        }

    def delete(self, topic: str, *partitions: int, group: str = "group") -> Any:
        """Ask OffsetDelete; return the answer."""
        asked = m.OffsetDeleteRequestTopic(
            name=topic,
            partitions=tuple(
                m.OffsetDeleteRequestPartition(partition_index=index) for index in partitions
            ),
        )
        return self.ask(47, 0, m.OffsetDeleteRequest(group_id=group, topics=(asked,)))

    def tombstones(self) -> list[Any]:
        return [record.key for record in self.records if record.value is None]


def group_record(
    members: int = 0,
    *,
    group: str = "group",
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


def key(topic: str, partition: int, group: str = "group") -> OffsetCommitKey:
    return OffsetCommitKey(group, topic, partition)


def milliseconds(count: int) -> timedelta:
    return timedelta(milliseconds=count)
