"""ApiVersions and FindCoordinator: which APIs are served, and by which node."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from failover.catalogue import features
from failover.partition_kinds import GROUPS, SHARE_STATE
from failover.routing import partition_for
from protocol.groups.share_state import keys
from protocol.wire.apis import api_versions_response
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import (
    NO_THROTTLE,
    ApiVersionsRequest,
    Coordinator,
    FinalizedFeatureKey,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kio.static.protocol import Entity

    from failover.catalogue.cluster_view import ClusterView, NodeHandler
    from protocol.groups.effects import Request

FIND_COORDINATOR: Final = FindCoordinatorRequest.__api_key__

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

SHARE_SINCE: Final = 6
"""The first FindCoordinator version with the key type SHARE."""

NO_TRANSACTIONS: Final = (
    "Rollcall coordinates consumer groups: transactions and records are not stored."
)
TRANSACTION_THROTTLE: Final = timedelta(seconds=1)
"""Clients wait this long before they send anything else on the connection (KIP-219)."""

NO_NODE: Final = -1
"""``node_id`` of an ApiVersions request that does not name the node it is meant for."""

LEVEL_0_SINCE: Final = 4
"""Clients of older ApiVersions versions cannot read a supported feature whose lowest level is 0
(KAFKA-17492)."""

SUPPORTED: Final = tuple(
    SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
    for name, levels in features.SUPPORTED.items()
)

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""The characters allowed in a client's name and version (KIP-511)."""


SOFTWARE_MAX: Final = 100
"""Characters that are kept of a client's name and version."""


def software(message: ApiVersionsRequest) -> str:
    """Return the name and version of a client's software; "" if it told none, or no valid one."""
    name, version = message.client_software_name, message.client_software_version
    if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
        return ""
    return f"{name} {version}"[:SOFTWARE_MAX]


def api_versions(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """List exactly the APIs that are served, and the features (KIP-584) with their levels here.

    A client that meant to reach another node, or another cluster, must bootstrap again (KIP-1242).
    """
    message = cast("ApiVersionsRequest", request.message)
    has_cluster, has_node = message.cluster_id is not None, message.node_id != NO_NODE
    if has_cluster is not has_node:
        raise KafkaError(ErrorCode.invalid_request)
    if request.api_version >= 3:
        for name in (message.client_software_name, message.client_software_version):
            if not _SOFTWARE.fullmatch(name):
                raise KafkaError(ErrorCode.invalid_request)
    if has_cluster and (message.cluster_id, message.node_id) != (view.cluster_id, view.node_id):
        raise KafkaError(ErrorCode.rebootstrap_required)
    finalized = features.finalized(view.configs, view.catalog.features)
    return replace(
        api_versions_response(),
        supported_features=SUPPORTED if request.api_version >= LEVEL_0_SINCE else (),
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized.items()
        ),
        finalized_features_epoch=view.catalog.features_epoch,
    )


def find_coordinator(view: ClusterView, request: Request, now_ms: int) -> Entity:  # noqa: ARG001
    """Return the node that leads each key's partition: a group or share coordinator.

    There is no transaction coordinator: the error makes clients give up, and carries a message; the
    answer is delayed as well, for clients that retry anyway.
    """
    message = cast("FindCoordinatorRequest", request.message)
    if message.key_type not in (GROUP, TRANSACTION, SHARE):
        raise KafkaError(
            ErrorCode.invalid_request, f"Coordinator type {message.key_type} is not known."
        )
    coordinators = tuple(
        _coordinator(view, request, message.key_type, key) for key in message.coordinator_keys
    )
    throttle = TRANSACTION_THROTTLE if message.key_type == TRANSACTION else NO_THROTTLE
    return FindCoordinatorResponse(throttle_time=throttle, coordinators=coordinators)


def _coordinator(view: ClusterView, request: Request, key_type: int, key: str) -> Coordinator:
    if key_type == SHARE and request.api_version < SHARE_SINCE:
        return _refused(key, ErrorCode.invalid_request)
    if key_type == TRANSACTION:
        return _refused(key, ErrorCode.transactional_id_authorization_failed, NO_TRANSACTIONS)
    partitions = view.configs.integer("offsets.topic.num.partitions")
    try:
        number = partition_of(key_type, key, partitions)
    except ValueError:
        return _refused(key, ErrorCode.invalid_request)
    node = view.catalog.nodes.get(view.leaders.get(number, -1))
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


def partition_of(key_type: int, key: str, partitions: int) -> int:
    """Return the number of a key's partition; each topic has ``partitions``.

    The key is a group's id, or for :data:`SHARE` that of share state (:mod:`...share_state.keys`).
    Raises ValueError for a malformed one.
    """
    if key_type == SHARE:
        return SHARE_STATE.number(keys.partition_of(keys.parse(key), partitions))
    return GROUPS.number(partition_for(key, partitions))


def _refused(key: str, code: ErrorCode, message: str | None = None) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message
    )


HANDLERS: Final[Mapping[int, NodeHandler]] = {
    10: find_coordinator,
    18: api_versions,
}
