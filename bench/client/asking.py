"""A blocking client connection for what a benchmark asks before and after: topics, groups, offsets.

Load and measurement use their own, cheaper ways; see ``load`` and ``reactor``.
"""

from __future__ import annotations

import socket
import struct
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Self

from protocol.wire.apis import api_of
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.frames import decode_response, encode_request
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

    from kio.static.protocol import RequestPayload

CLIENT_ID: Final = "rollcall-bench"
RETRY_SECONDS: Final = 30.0


def version_of(request: RequestPayload) -> int:
    """Return the version in which our clients send ``request``: they know topics by name."""
    return api_of(request).newest_by_name


class Connection:
    """One connection to one node, one request at a time."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 30.0) -> None:
        self._socket = socket.create_connection(address, timeout=timeout_s)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()

    def ask(self, request: RequestPayload) -> Any:
        """Send ``request`` and return its answer, whose type the request settles."""
        self._correlation_id += 1
        key, version = request.__api_key__, version_of(request)
        self._socket.sendall(encode_request(key, version, self._correlation_id, CLIENT_ID, request))
        (size,) = struct.unpack(">i", self._receive(4))
        return decode_response(key, version, self._receive(size))[1]

    def ask_raw(self, frame: bytes | bytearray) -> bytes:
        """Send a frame and return its answer, both with their lengths."""
        self._socket.sendall(frame)
        length = self._receive(4)
        return length + self._receive(int.from_bytes(length, "big"))

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self._socket.recv(size - len(received))
            if not piece:
                raise ConnectionResetError("the server closed the connection")
            received += piece
        return bytes(received)

    def api_versions(self) -> None:
        """Ask for the API versions: the server is there and answers."""
        self.ask(ApiVersionsRequest(client_software_name="rollcall", client_software_version="0"))

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic on one replica; one that is there already is fine."""
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
        )
        answer = self.ask(CreateTopicsRequest(topics=(topic,), timeout=timedelta(seconds=30)))
        error = answer.topics[0].error_code
        if error not in (ErrorCode.none, ErrorCode.topic_already_exists):
            raise KafkaError(error, answer.topics[0].error_message)

    def topic_ids(self, names: Iterable[str]) -> dict[str, UUID]:
        """Return the ids of topics that are there."""
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(topic_id=None, name=name) for name in names),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        answer = self.ask(request)
        return {topic.name: topic.topic_id for topic in answer.topics if not topic.error_code}

    def coordinator(self, group_id: str) -> tuple[str, int]:
        """Return where the group's coordinator listens; waits while there is none."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group_id,))
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            found = self.ask(request).coordinators[0]
            if found.error_code is ErrorCode.none:
                return found.host, found.port
            if time.monotonic() > deadline or not found.error_code.retriable:
                raise KafkaError(found.error_code, found.error_message)
            time.sleep(0.1)

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
