"""The catalogue: topics, dynamic configs and nodes, a state machine with a log of its own.

It has the form of a group shard: an event goes in, records and replies come out, ``emit`` is
``replay`` plus collect, and only ``replay`` writes the state. Every node replays the same records
and reads the same :class:`CatalogImage`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

from failover.catalogue import configs as catalog_configs
from failover.catalogue import topics as catalog_topics
from failover.catalogue.cluster_view import CatalogImage, Node, ResourceKey
from failover.catalogue.records import (
    ConfigKey,
    ConfigValue,
    DeletedTopicKey,
    DeletedTopicValue,
    NodeKey,
    NodeValue,
    TopicKey,
    TopicValue,
    config_record,
    deletion_record,
    node_record,
    topic_record,
)
from failover.catalogue.topic_names import CONSUMER_OFFSETS
from protocol.groups.effects import Elected, GroupFailed, Reply, Request, Resigned, Result
from protocol.groups.topics import Topic, Topics
from protocol.tables import merged
from protocol.wire.apis import error_response
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from kio.static.protocol import Entity

    from protocol.config import Configs
    from protocol.records import Record

    Handler = Callable[["Catalog", Request], None]

CATALOG_GROUP: Final = ""
"""The ``group_id`` of the catalogue's replies: they wait for all of its records."""


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node registered, moved to another address, came up or went down."""

    node: Node


@dataclass(frozen=True, slots=True)
class ClusterFormed:
    """The first start: ``__consumer_offsets`` gets its partitions, for good.

    ``placement`` holds one tuple of node ids per partition, the preferred leader first. Asking
    again changes nothing.
    """

    placement: Sequence[tuple[int, ...]]


CatalogEvent: TypeAlias = Request | Elected | Resigned | NodeChanged | ClusterFormed


class Catalog:
    """Topics, dynamic configs and nodes.

    ``configs`` (the leader's, dynamic ones included) may be replaced at any time; everything else
    is written by :meth:`replay` alone.
    """

    def __init__(self, configs: Configs, rng: random.Random) -> None:
        self.configs = configs
        self._rng = rng
        self._clear()

    def _clear(self) -> None:
        self._topics: dict[str, Topic] = {}
        self._nodes: dict[int, Node] = {}
        self._overrides: dict[ResourceKey, dict[str, str]] = {}
        self._deleted: dict[UUID, str] = {}
        self._placements: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._topics_image: Topics | None = None
        self._image: CatalogImage | None = None
        self._result = Result()

    @property
    def has_groups(self) -> bool:
        """False: no group is coordinated here."""
        return False

    def handle(self, event: CatalogEvent, now_ms: int) -> Result:  # noqa: ARG002 - as every shard
        """Take one event; everything it led to is in the result."""
        self._result = Result()
        match event:
            case Elected() | Resigned():
                pass  # nothing here is soft: there are no timers to arm
            case Request():
                self._answer(event)
            case NodeChanged(node):
                known = self._nodes.get(node.node_id)
                if known is not None and not node.up:
                    node = replace(node, rack=known.rack)  # whoever saw it go does not know it
                if known != node:
                    self.emit(node_record(node))
            case ClusterFormed(placement):
                if CONSUMER_OFFSETS not in self._topics:
                    self.emit(topic_record(CONSUMER_OFFSETS, self.new_topic_id(), placement))
        return self._result

    def replay(self, record: Record) -> None:
        """Apply one record of the log: the only writer of the catalogue's state."""
        REPLAYS[type(record.key)](self, record.key, record.value)
        self._image = None

    def next_deadline(self) -> int | None:
        """Return None: nothing here happens by itself."""
        return None

    def forgive(self, stall_ms: int) -> None:
        """Move no deadline: there is none."""

    def groups_of(self, event: CatalogEvent) -> Sequence[str] | None:  # noqa: ARG002 - as every shard
        """Tell whether an event that raised had changed the state: then all of it is in doubt."""
        return (CATALOG_GROUP,) if self._result.records else ()

    def take_failures(self) -> list[GroupFailed]:
        """Return nothing: nothing here happens by itself."""
        return []

    def forget(self, group_id: str) -> None:  # noqa: ARG002 - there is but one
        """Drop the whole state; all records are replayed next."""
        self._clear()

    def restored(self, group_id: str, now: int) -> Result:  # noqa: ARG002 - there is but one
        """Go on after the records were replayed."""
        return self._result

    def emit(self, record: Record) -> None:
        """Apply a new record and hand it to the log."""
        self.replay(record)
        self._result.records.append(record)

    def reply(self, request: Request, message: Entity) -> None:
        """Answer a request, once everything in the catalogue up to here is committed."""
        self._result.replies.append(Reply(request.ticket, message, CATALOG_GROUP))

    def new_topic_id(self) -> UUID:
        """Draw a random topic id."""
        return UUID(int=self._rng.getrandbits(128), version=4)

    @property
    def image(self) -> CatalogImage:
        """The state as an immutable value; the same object until something changes."""
        if self._image is None:
            self._image = CatalogImage(
                topics=self.topics(),
                nodes=dict(sorted(self._nodes.items())),
                overrides={key: dict(values) for key, values in self._overrides.items()},
            )
        return self._image

    def topics(self) -> Topics:
        """Return the topics alone, as the group shards want them."""
        if self._topics_image is None:
            deleted: dict[str, set[UUID]] = {}
            for topic_id, name in self._deleted.items():
                deleted.setdefault(name, set()).add(topic_id)
            self._topics_image = Topics(
                self._topics.values(),
                self._racks(),
                deleted={name: frozenset(topic_ids) for name, topic_ids in deleted.items()},
            )
        return self._topics_image

    def topic(self, name: str) -> Topic | None:
        """Return the topic called so."""
        return self._topics.get(name)

    def deletions_beyond(self, kept: int) -> list[UUID]:
        """Return the ids of deleted topics that are too many when so many may be kept."""
        return list(islice(self._deleted, max(len(self._deleted) - kept, 0)))

    def topic_names(self) -> tuple[str, ...]:
        """Return every topic's name, in order of creation."""
        return tuple(self._topics)

    def overrides_of(self, resource: ResourceKey) -> dict[str, str]:
        """Return a copy of the dynamic configs of one resource."""
        return dict(self._overrides.get(resource, {}))

    def node_ids(self, live_only: bool = False) -> list[int]:
        """Return the registered nodes' ids in order, those that are down too unless told."""
        return sorted(node.node_id for node in self._nodes.values() if node.up or not live_only)

    def snapshot(self) -> list[Record]:
        """Return records that rebuild this state in an empty catalogue."""
        nodes = [node_record(node) for _, node in sorted(self._nodes.items())]
        topics = [
            topic_record(topic.name, topic.topic_id, topic.replicas)
            for topic in self._topics.values()
        ]
        configs = [
            config_record(resource, name, value)
            for resource, values in sorted(self._overrides.items())
            for name, value in sorted(values.items())
        ]
        deletions = [deletion_record(topic_id, name) for topic_id, name in self._deleted.items()]
        return nodes + topics + configs + deletions

    def _answer(self, request: Request) -> None:
        try:
            HANDLERS[request.api_key](self, request)
        except KafkaError as error:
            answer = error_response(request.api_key, request.message, error.code, error.message)
            self.reply(request, answer)

    def _replay_topic(self, key: TopicKey, value: TopicValue | None) -> None:
        self._topics_image = None
        if value is None:
            self._topics.pop(key.name, None)
            return
        assert value.topic_id is not None
        replicas = tuple(
            self._placements.setdefault(partition.nodes, partition.nodes)
            for partition in value.partitions
        )
        self._topics[key.name] = Topic(value.topic_id, key.name, len(replicas), replicas)

    def _replay_deletion(self, key: DeletedTopicKey, value: DeletedTopicValue | None) -> None:
        assert key.topic_id is not None
        self._topics_image = None
        if value is None:
            self._deleted.pop(key.topic_id, None)
        else:
            self._deleted[key.topic_id] = value.name

    def _replay_config(self, key: ConfigKey, value: ConfigValue | None) -> None:
        resource = (key.resource_type, key.resource_name)
        values = self._overrides.setdefault(resource, {})
        if value is None:
            values.pop(key.name, None)
        else:
            values[key.name] = value.value
        if not values:
            del self._overrides[resource]

    def _replay_node(self, key: NodeKey, value: NodeValue | None) -> None:
        if value is None:
            self._nodes.pop(key.node_id, None)
        else:
            self._nodes[key.node_id] = Node(
                key.node_id, value.host, value.port, value.up, value.rack
            )
        racks = self._racks()
        if self._topics_image is not None and self._topics_image.racks != racks:
            self._topics_image = None

    def _racks(self) -> dict[int, str]:
        return {node.node_id: node.rack for node in self._nodes.values() if node.rack is not None}


HANDLERS: Mapping[int, Handler] = merged(catalog_topics.HANDLERS, catalog_configs.HANDLERS)

REPLAYS: Mapping[type[Entity], Callable[[Catalog, Any, Any], None]] = {
    TopicKey: Catalog._replay_topic,
    ConfigKey: Catalog._replay_config,
    DeletedTopicKey: Catalog._replay_deletion,
    NodeKey: Catalog._replay_node,
}
