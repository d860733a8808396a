"""The catalogue's state; only replayed records write it.

The handlers of :mod:`failover.catalogue.topics` and :mod:`failover.catalogue.configs` read it, emit
records and reply; :class:`failover.catalogue.catalog.Catalog` is the state machine around it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from failover.catalogue.cluster_view import CatalogImage, Node, ResourceKey
from failover.catalogue.records import (
    ConfigKey,
    ConfigValue,
    DeletedTopicKey,
    DeletedTopicValue,
    FeatureKey,
    FeatureValue,
    NodeKey,
    NodeValue,
    TopicKey,
    TopicValue,
    config_record,
    deletion_record,
    feature_record,
    node_record,
    topic_record,
)
from protocol.groups.effects import Reply, Request, Result
from protocol.groups.topics import Topic, Topics

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from kio.static.protocol import Entity

    from protocol.config import Configs
    from protocol.records import Record

CATALOG_GROUP: Final = ""
"""The ``group_id`` of the catalogue's replies: they wait for all of its records."""


class CatalogState:
    """Topics, dynamic configs, nodes and features.

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
        self._features: dict[str, FeatureValue] = {}
        self._placements: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._topics_image: Topics | None = None
        self._image: CatalogImage | None = None
        self._result = Result()

    def replay(self, record: Record) -> None:
        """Apply one record of the log. Nothing else writes the catalogue's state."""
        REPLAYS[type(record.key)](self, record.key, record.value)
        self._image = None

    def emit(self, record: Record) -> None:
        """Apply a new record and hand it to the log."""
        self.replay(record)
        self._result.records.append(record)

    def reply(self, request: Request, message: Entity) -> None:
        """Answer a request, once all records of the catalogue so far are committed."""
        self._result.replies.append(Reply(request.ticket, message, CATALOG_GROUP))

    def new_topic_id(self) -> UUID:
        """Return a random topic id."""
        return UUID(int=self._rng.getrandbits(128), version=4)

    @property
    def image(self) -> CatalogImage:
        """The state as an immutable value; the same object until something changes."""
        if self._image is None:
            self._image = CatalogImage(
                topics=self.topics(),
                nodes=dict(sorted(self._nodes.items())),
                overrides={key: dict(values) for key, values in self._overrides.items()},
                features={name: value.level for name, value in self._features.items()},
                features_epoch=max((one.epoch for one in self._features.values()), default=0),
            )
        return self._image

    def topics(self) -> Topics:
        """Return only the topics, in the form that the group shards need."""
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
        """Return the topic of this name."""
        return self._topics.get(name)

    def deletions_beyond(self, kept: int) -> list[UUID]:
        """Return the ids of the deleted topics beyond the number to keep."""
        return list(islice(self._deleted, max(len(self._deleted) - kept, 0)))

    def topic_names(self) -> tuple[str, ...]:
        """Return every topic's name, in order of creation."""
        return tuple(self._topics)

    def overrides_of(self, resource: ResourceKey) -> dict[str, str]:
        """Return a copy of one resource's dynamic configs."""
        return dict(self._overrides.get(resource, {}))

    def node_ids(self, live_only: bool = False) -> list[int]:
        """Return the registered nodes' ids in order, by default including nodes that are down."""
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
        features = [
            feature_record(name, value.level, value.epoch) for name, value in self._features.items()
        ]
        return nodes + topics + configs + deletions + features

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
                key.node_id,
                value.host,
                value.port,
                value.up,
                value.rack,
                value.min_level,
                value.max_level,
            )
        racks = self._racks()
        if self._topics_image is not None and self._topics_image.racks != racks:
            self._topics_image = None

    def _replay_feature(self, key: FeatureKey, value: FeatureValue | None) -> None:
        if value is None:
            self._features.pop(key.name, None)
        else:
            self._features[key.name] = value

    def _racks(self) -> dict[int, str]:
        return {node.node_id: node.rack for node in self._nodes.values() if node.rack is not None}


REPLAYS: Mapping[type[Entity], Callable[[CatalogState, Any, Any], None]] = {
    TopicKey: CatalogState._replay_topic,
    ConfigKey: CatalogState._replay_config,
    DeletedTopicKey: CatalogState._replay_deletion,
    NodeKey: CatalogState._replay_node,
    FeatureKey: CatalogState._replay_feature,
}
