"""A blocking client for requests before and after a measurement: topics, groups, offsets.

The load itself uses cheaper clients; see ``load`` and ``reactor``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from actors.client.blocking import BlockingConnection
from actors.waiting import poll
from bench.client.connection_settings import DEFAULT
from protocol.client.frames import CLIENT_ID
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import (
    ApiVersionsRequest,
    CreatableTopic,
    CreateTopicsRequest,
    DescribedGroup,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from bench.client.connection_settings import ConnectionSettings


COORDINATOR_SECONDS_MAX: Final = 180.0
"""A Kafka that has just created a topic of 1,000 partitions makes its own topic only after them."""


class BlockingClient(BlockingConnection):
    """A connection to one node."""

    def __init__(
        self,
        address: tuple[str, int],
        timeout_s: float = 30.0,
        settings: ConnectionSettings = DEFAULT,
    ) -> None:
        super().__init__(address, timeout_s, CLIENT_ID, settings.versions, settings.security)

    def api_versions(self) -> None:
        """Send ApiVersions, to check that the server answers."""
        self.ask(ApiVersionsRequest(client_software_name="rollcall", client_software_version="0"))

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic with one replica, unless it exists."""
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
        )
        answer = self.ask(CreateTopicsRequest(topics=(topic,), timeout=timedelta(seconds=30)))
        error = answer.topics[0].error_code
        if error not in (ErrorCode.none, ErrorCode.topic_already_exists):
            raise KafkaError(error, answer.topics[0].error_message)

    def topic_ids(self, names: Iterable[str]) -> dict[str, UUID]:
        """Return the ids of topics that exist."""
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(topic_id=None, name=name) for name in names),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        answer = self.ask(request)
        return {topic.name: topic.topic_id for topic in answer.topics if not topic.error_code}

    def coordinator(
        self, group_id: str, within_s: float = COORDINATOR_SECONDS_MAX
    ) -> tuple[str, int]:
        """Return the address of the group's coordinator; waits so long while there is none."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group_id,))
        found = poll(
            lambda: self.ask(request).coordinators[0],
            within_s,
            is_done=lambda found: not found.error_code.retriable,
            every_s=0.1,
        )
        if found.error_code is not ErrorCode.none:
            raise KafkaError(found.error_code, found.error_message)
        return found.host, found.port

    def describe(self, group_ids: tuple[str, ...]) -> tuple[DescribedGroup, ...]:
        """Return the groups as their coordinator, which this node must be, describes them."""
        request = DescribeGroupsRequest(groups=group_ids, include_authorized_operations=False)
        groups: tuple[DescribedGroup, ...] = self.ask(request).groups
        return groups

    def committed_offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """Return every committed offset of the group by topic and partition."""
        group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        answer = self.ask(OffsetFetchRequest(groups=(group,), require_stable=False)).groups[0]
        if answer.error_code is not ErrorCode.none:
            raise KafkaError(answer.error_code)
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in answer.topics
            for partition in topic.partitions
            if partition.error_code is ErrorCode.none and partition.committed_offset >= 0
        }
