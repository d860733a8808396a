"""The APIs a node answers by itself: one table from API key to function.

Each function is ``(view, request, now_ms) -> NodeAnswer`` and raises ``KafkaError`` for an error
that stands for the whole request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.apis.configs import describe_configs, list_config_resources
from failover.apis.coordinators import api_versions, find_coordinator
from failover.apis.log import fetch, list_offsets, offset_for_leader_epoch
from failover.apis.metadata import describe_cluster, describe_topic_partitions, metadata
from failover.apis.produce import produce
from failover.apis.transactions import describe_producers, init_producer_id, list_transactions
from failover.apis.unused import (
    alter_partition_reassignments,
    delete_records,
    describe_client_quotas,
    describe_log_dirs,
    describe_user_scram_credentials,
    elect_leaders,
    list_partition_reassignments,
    no_sasl,
    security_disabled,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from failover.catalogue.cluster_view import ClusterView, NodeAnswer
    from protocol.groups.effects import Request

    NodeHandler = Callable[[ClusterView, Request, int], NodeAnswer]


NODE_HANDLERS: Mapping[int, NodeHandler] = {
    0: produce,
    1: fetch,
    2: list_offsets,
    3: metadata,
    10: find_coordinator,
    17: no_sasl,
    18: api_versions,
    21: delete_records,
    22: init_producer_id,
    23: offset_for_leader_epoch,
    29: security_disabled,
    30: security_disabled,
    31: security_disabled,
    32: describe_configs,
    35: describe_log_dirs,
    43: elect_leaders,
    45: alter_partition_reassignments,
    46: list_partition_reassignments,
    48: describe_client_quotas,
    50: describe_user_scram_credentials,
    60: describe_cluster,
    61: describe_producers,
    66: list_transactions,
    74: list_config_resources,
    75: describe_topic_partitions,
}
