"""The class of each version of a message: kio's, or one of ours where kio lacks the version."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kio.index import load_request_schema, load_response_schema

from protocol.wire.kafka_4_4.api_versions_request import ApiVersionsRequest
from protocol.wire.kafka_4_4.api_versions_response import ApiVersionsResponse
from protocol.wire.kafka_4_4.delete_groups_request import DeleteGroupsRequest
from protocol.wire.kafka_4_4.delete_groups_response import DeleteGroupsResponse
from protocol.wire.kafka_4_4.streams_group_describe_request import StreamsGroupDescribeRequest
from protocol.wire.kafka_4_4.streams_group_describe_response import StreamsGroupDescribeResponse
from protocol.wire.kafka_4_4.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from protocol.wire.kafka_4_4.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kio.static.protocol import Entity

GENERATED: Final[Mapping[tuple[int, int], tuple[type[Entity], type[Entity]]]] = MappingProxyType(
    {
        (int(request.__api_key__), int(request.__version__)): (request, response)
        for request, response in (
            (ApiVersionsRequest, ApiVersionsResponse),
            (DeleteGroupsRequest, DeleteGroupsResponse),
            (StreamsGroupDescribeRequest, StreamsGroupDescribeResponse),
            (StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse),
        )
    }
)
"""Request and response by API key and version. Remove a row once kio has the version."""


def request_shape(api_key: int, version: int) -> type[Entity]:
    """Return the class of one version of a request."""
    ours = GENERATED.get((api_key, version))
    return load_request_schema(api_key, version) if ours is None else ours[0]


def response_shape(api_key: int, version: int) -> type[Entity]:
    """Return the class of one version of a response."""
    ours = GENERATED.get((api_key, version))
    return load_response_schema(api_key, version) if ours is None else ours[1]
