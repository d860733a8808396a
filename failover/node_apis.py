"""The APIs a node answers by itself: one table from API key to function.

Each function is ``(view, request, now_ms) -> NodeAnswer`` and raises ``KafkaError`` for an error
that stands for the whole request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from failover.cluster_view import ClusterView, NodeAnswer
    from protocol.groups.effects import Request

    NodeHandler = Callable[[ClusterView, Request, int], NodeAnswer]

NODE_HANDLERS: Mapping[int, NodeHandler] = {}
