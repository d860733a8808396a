"""The APIs a node answers by itself: one table from API key to function, merged from all modules.

Each function is a :data:`failover.catalogue.cluster_view.NodeHandler` and raises ``KafkaError`` for
an error that applies to the whole request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from failover.apis import (
    configs,
    coordinators,
    log,
    metadata,
    produce,
    share_fetch,
    transactions,
    unused,
)
from protocol.tables import merged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from failover.catalogue.cluster_view import NodeHandler

NODE_HANDLERS: Final[Mapping[int, NodeHandler]] = merged(
    configs.HANDLERS,
    coordinators.HANDLERS,
    log.HANDLERS,
    metadata.HANDLERS,
    produce.HANDLERS,
    share_fetch.HANDLERS,
    transactions.HANDLERS,
    unused.HANDLERS,
)
