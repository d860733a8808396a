"""What one node knows about the cluster when it answers by itself, and the kinds of answers.

Node APIs (``failover/apis/table.py``) are pure functions of a :class:`ClusterView`, a request and
the time. A host builds a new view when the catalogue, the leaders or its configurations change.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from failover.catalogue.described_topics import DescribedTopics
from failover.catalogue.levels import NOT_TOLD, ROLLCALL_VERSION, LevelRange
from failover.led_groups import LedGroups
from failover.partition_kinds import kind_of_topic
from protocol.config import ConfigError
from protocol.groups.topics import Topics
from protocol.stories.history import History

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kio.static.protocol import Entity

    from protocol.config import Configs
    from protocol.groups.effects import Request
    from protocol.groups.topics import Topic

BROKER = 4
"""Kafka's config resource type for a broker; the empty name is the cluster-wide default."""
TOPIC = 2
"""Kafka's config resource type for a topic."""
CLIENT_METRICS = 16
"""Kafka's config resource type for client metrics subscriptions: this cluster has none."""
GROUP = 32
"""Kafka's config resource type for a consumer group."""

ResourceKey: TypeAlias = tuple[int, str]
"""A config resource: its type and its name."""

NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Node:
    """A coordinator as clients see it: a broker with an address.

    ``up`` is False while nothing listens at the address; such a node is not listed and leads
    nothing. ``rack`` is the node's rack, if it reported one. ``min_level`` and ``max_level`` are
    the levels that its program supports (:mod:`failover.catalogue.levels`).
    """

    node_id: int
    host: str
    port: int
    up: bool = True
    rack: str | None = None
    min_level: int = NOT_TOLD.lowest
    max_level: int = NOT_TOLD.highest

    @property
    def levels(self) -> LevelRange:
        """The levels of ``rollcall.version`` that its program supports."""
        return LevelRange(self.min_level, self.max_level)

    @property
    def tells_levels(self) -> bool:
        """Whether its program knows levels; an older one does not."""
        return self.levels != NOT_TOLD

    def with_levels(self, levels: LevelRange) -> Node:
        """Return the node with a program that supports other levels."""
        return replace(self, min_level=levels.lowest, max_level=levels.highest)


@dataclass(frozen=True, slots=True, eq=False)
class CatalogImage:
    """The catalogue at one offset, immutable: topics, dynamic configs, nodes and features.

    ``features`` are the levels that were finalized, ``features_epoch`` grows with each change.
    Two images are equal only if they are the same object, so that values derived from one can be
    cached.
    """

    topics: Topics = field(default_factory=Topics)
    nodes: Mapping[int, Node] = field(default_factory=dict)
    overrides: Mapping[ResourceKey, Mapping[str, str]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    features_epoch: int = 0

    @property
    def level(self) -> int:
        """The finalized level of ``rollcall.version``."""
        return self.features.get(ROLLCALL_VERSION, 0)

    def overrides_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the dynamic configs set on one resource, by config name."""
        return self.overrides.get((resource_type, name), NO_OVERRIDES)

    def group_configs(self) -> dict[str, Mapping[str, str]]:
        """Return the dynamic configs of groups, by group id."""
        return {name: own for (kind, name), own in self.overrides.items() if kind == GROUP}


def _no_groups() -> LedGroups:
    return LedGroups(1, dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterView:
    """One node's view of the cluster at one moment; compared and hashed by identity.

    ``leaders`` maps the number of each partition of the coordinators' own logs
    (:mod:`failover.partition_kinds`) to the node that leads it; one without a leader is left out.
    ``static_configs`` are this node's configs at its start; ``configs`` have the catalogue's
    dynamic ones on top (see :func:`effective_configs`). ``controller_id`` is the node that leads
    the catalogue, -1 when there is none. ``described`` has Metadata's topics once they are built,
    and ``history`` the stories of rebalances; all views share both. ``led`` are the groups led
    here.
    """

    node_id: int
    cluster_id: str
    catalog: CatalogImage
    static_configs: Configs
    configs: Configs
    leaders: Mapping[int, int]
    controller_id: int = 0
    described: DescribedTopics = field(default_factory=DescribedTopics)
    history: History = field(default_factory=lambda: History(0))
    led: LedGroups = field(default_factory=_no_groups)


def leader_of(view: ClusterView, topic: Topic, index: int) -> int:
    """Return the node that leads a partition, -1 when none can.

    A coordinator leads partitions of the coordinators' own logs; any other partition is led by the
    first of its replicas that is up.
    """
    nodes, kind = view.catalog.nodes, kind_of_topic(topic.name)
    if kind is not None:
        candidates: Sequence[int] = (view.leaders.get(kind.number(index), -1),)
    else:
        candidates = topic.replicas[index]
    return next((one for one in candidates if one in nodes and nodes[one].up), -1)


def effective_configs(static: Configs, catalog: CatalogImage, node_id: int) -> Configs:
    """Return a node's configs: the static ones, the cluster's dynamic ones, then its own.

    The catalogue checks dynamic configs against its leader's static ones; another node's may
    contradict them, and then take precedence.
    """
    dynamic = {
        **catalog.overrides_of(BROKER, ""),
        **catalog.overrides_of(BROKER, str(node_id)),
    }
    if not dynamic:
        return static
    try:
        return static.with_overrides(dynamic)
    except ConfigError:
        return _what_fits(static, dynamic)


def _what_fits(static: Configs, dynamic: Mapping[str, str]) -> Configs:
    """Leave out the dynamic configs that this node's static ones do not permit."""
    configs = static
    for name, text in dynamic.items():
        with suppress(ConfigError):
            configs = configs.with_overrides({name: text})
    return configs


@dataclass(frozen=True, slots=True)
class DelayedResponse:
    """An answer that is known but sent no sooner than ``deadline_ms`` (a fetch's long poll)."""

    deadline_ms: int
    response: Entity


@dataclass(frozen=True, slots=True)
class Mutating:
    """Send ``response`` now, and ``mutation`` (a CreateTopicsRequest) to the catalogue's leader.

    The answer to the mutation is not used: the client asks for the metadata again.
    """

    response: Entity
    mutation: Entity


NodeAnswer: TypeAlias = "Entity | DelayedResponse | Mutating"
NodeHandler: TypeAlias = "Callable[[ClusterView, Request, int], NodeAnswer]"
"""Answers a request from what its node knows; the last argument is the time in milliseconds."""
