"""The catalogue: topics, dynamic configs, nodes and features; a state machine with its own log.

It works like a group shard: an event goes in, records and replies come out. ``emit`` is ``replay``
plus collect, and only ``replay`` writes the state. Every node replays the same records and reads
the same :class:`CatalogImage`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from failover.catalogue import configs as catalog_configs
from failover.catalogue import features as catalog_features
from failover.catalogue import topics as catalog_topics
from failover.catalogue.cluster_view import Node
from failover.catalogue.records import node_record, topic_record
from failover.catalogue.state import CATALOG_GROUP, CatalogState
from failover.catalogue.topic_names import OWN_LOGS
from protocol.groups.effects import Elected, GroupFailed, Request, Resigned, Result
from protocol.tables import merged
from protocol.wire.apis import error_response
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node registered, changed its address, came up or went down."""

    node: Node


@dataclass(frozen=True, slots=True)
class ClusterFormed:
    """The first start: each of the coordinators' own logs gets its permanent partitions.

    ``placement`` holds one tuple of node ids per partition, the preferred leader first. Repeating
    the event changes nothing, unless this version has a log that the one before had not.
    """

    placement: Sequence[tuple[int, ...]]


CatalogEvent: TypeAlias = Request | Elected | Resigned | NodeChanged | ClusterFormed


class Catalog(CatalogState):
    """The catalogue as a state machine: takes events, answers requests."""

    @property
    def has_groups(self) -> bool:
        """False: no group is coordinated here."""
        return False

    def handle(self, event: CatalogEvent, now_ms: int) -> Result:  # noqa: ARG002 - as every shard
        """Handle one event; return all its results."""
        self._result = Result()
        match event:
            case Elected() | Resigned():
                pass  # there is no soft state: no timers to arm
            case Request():
                self._answer(event)
            case NodeChanged(node):
                known = self._nodes.get(node.node_id)
                if known is not None and not node.up:  # the reporter knows only its address
                    node = replace(node, rack=known.rack).with_levels(known.levels)
                if known != node:
                    self.emit(node_record(node))
            case ClusterFormed(placement):
                for name in OWN_LOGS:
                    if name not in self._topics:
                        self.emit(topic_record(name, self.new_topic_id(), placement))
        return self._result

    def next_deadline(self) -> int | None:
        """Return None: nothing here happens on its own."""
        return None

    def shift_deadlines(self, stall_ms: int) -> None:
        """Move no deadline: there is none."""

    def groups_of(self, event: CatalogEvent) -> Sequence[str] | None:  # noqa: ARG002 - as every shard
        """Return the catalogue's group if an event that raised had changed the state."""
        return (CATALOG_GROUP,) if self._result.records else ()

    def take_failures(self) -> list[GroupFailed]:
        """Return nothing: nothing here happens on its own."""
        return []

    def forget(self, group_id: str) -> None:  # noqa: ARG002 - there is but one
        """Drop the whole state; all records are replayed next."""
        self._clear()

    def restored(self, group_id: str, now: int) -> Result:  # noqa: ARG002 - there is but one
        """Continue after the records were replayed."""
        return self._result

    def _answer(self, request: Request) -> None:
        try:
            HANDLERS[request.api_key](self, request)
        except KafkaError as error:
            answer = error_response(request.api_key, request.message, error.code, error.message)
            self.reply(request, answer)


HANDLERS: Mapping[int, Callable[[CatalogState, Request], None]] = merged(
    catalog_topics.HANDLERS, catalog_configs.HANDLERS, catalog_features.HANDLERS
)
