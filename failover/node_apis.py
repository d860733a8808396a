"""The APIs a node answers by itself: one table from API key to function.

Each function is ``(view, request, now_ms) -> NodeAnswer`` and raises ``KafkaError`` for an error
that stands for the whole request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.config_apis import describe_configs, list_config_resources
from failover.coordinator_apis import api_versions, find_coordinator
from failover.log_apis import fetch, list_offsets, offset_for_leader_epoch
from failover.metadata_apis import describe_cluster, describe_topic_partitions, metadata
from failover.produce_apis import produce

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from failover.cluster_view import ClusterView, NodeAnswer
    from protocol.groups.effects import Request

    NodeHandler = Callable[[ClusterView, Request, int], NodeAnswer]


NODE_HANDLERS: Mapping[int, NodeHandler] = {
    0: produce,
    1: fetch,
    2: list_offsets,
    3: metadata,
    10: find_coordinator,
    18: api_versions,
    23: offset_for_leader_epoch,
    32: describe_configs,
    60: describe_cluster,
    74: list_config_resources,
    75: describe_topic_partitions,
}
