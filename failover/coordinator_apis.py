"""ApiVersions and FindCoordinator: what is served, and where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

from failover.routing import partition_for
from protocol.wire.apis import api_versions_response
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import (
    NO_THROTTLE,
    ApiVersionsRequest,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from kio.static.protocol import Entity

    from failover.cluster_view import ClusterView
    from protocol.groups.effects import Request

FIND_COORDINATOR: Final = FindCoordinatorRequest.__api_key__

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

SHARE_SINCE: Final = 6
"""The first FindCoordinator version in which SHARE is a key type."""

_SHARE_KEY: Final = re.compile(r".+:[A-Za-z0-9_-]{22}:\d+", re.DOTALL)
"""group id, topic id (base64), partition."""

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""What a client may call itself and its version (KIP-511)."""


def api_versions(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """List exactly what is served; no features are versioned here."""
    message = cast("ApiVersionsRequest", request.message)
    if request.api_version >= 3:
        for name in (message.client_software_name, message.client_software_version):
            if not _SOFTWARE.fullmatch(name):
                raise KafkaError(ErrorCode.invalid_request)
    return api_versions_response()


def find_coordinator(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Name the node that leads each group's partition of ``__consumer_offsets``.

    There is no transaction coordinator and no share coordinator: Kafka says
    COORDINATOR_NOT_AVAILABLE while one can not be found, and so is it here, for ever.
    """
    message = cast("FindCoordinatorRequest", request.message)
    if message.key_type not in (GROUP, TRANSACTION, SHARE):
        raise KafkaError(
            ErrorCode.invalid_request, f"Coordinator type {message.key_type} is not known."
        )
    coordinators = tuple(
        _coordinator(view, request, message.key_type, key) for key in message.coordinator_keys
    )
    return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=coordinators)


def _coordinator(view: ClusterView, request: Request, key_type: int, key: str) -> Coordinator:
    if key_type == SHARE and (request.api_version < SHARE_SINCE or not _SHARE_KEY.fullmatch(key)):
        return _refused(key, ErrorCode.invalid_request)
    if key_type != GROUP:
        return _refused(key, ErrorCode.coordinator_not_available)
    partitions = view.configs.integer("offsets.topic.num.partitions")
    node = view.catalog.nodes.get(view.leaders.get(partition_for(key, partitions), -1))
    if node is None or not node.up:
        return _refused(key, ErrorCode.coordinator_not_available)
    return Coordinator(
        key=key,
        node_id=node.node_id,
        host=node.host,
        port=node.port,
        error_code=ErrorCode.none,
        error_message=None,
    )


def _refused(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=None)
