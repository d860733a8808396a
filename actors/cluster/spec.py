"""The definition of a cluster as values, which every actor gets; it contains no secret."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from failover.catalogue.cluster_view import Node
from failover.catalogue.levels import SUPPORTED
from protocol.listeners import host_and_port

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from failover.identity import Identity

REPLICATION_FACTOR = "offsets.topic.replication.factor"
WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})
"""Addresses at which a listener is reached by every address of its host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return host_and_port(self.host, self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorPlace:
    """The host of a coordinator, and its addresses.

    ``ray_host`` is the address of its Ray node; empty on the cluster's own Ray, which has one node.
    It listens at ``listener`` for clients, which are given ``advertised``, and at ``peer`` for
    the other coordinators (port 0: any free port).
    """

    ray_host: str
    listener: Address
    advertised: Address
    peer: Address

    @property
    def internal(self) -> Address:
        """The address at which the cluster's own processes reach the listener."""
        is_everywhere = self.listener.host in WILDCARDS
        return replace(self.listener, host=self.peer.host) if is_everywhere else self.listener


def on_one_host(host: str, ports: Iterable[int]) -> tuple[CoordinatorPlace, ...]:
    """Return the places of coordinators that listen at these ports of one host."""
    addresses = [Address(host=host, port=port) for port in ports]
    peer = Address(host=host, port=0)
    return tuple(
        CoordinatorPlace(ray_host="", listener=address, advertised=address, peer=peer)
        for address in addresses
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A cluster: the places of its coordinators, its data directory and its configs.

    Coordinator *i* is node *i* and leads partition *i* of ``__consumer_offsets`` and of
    ``__share_group_state``. The data directory has the same path on every host. ``overrides`` are
    the configs that differ from their defaults, as text. The host of ``console`` is empty if it is
    that of the controller's Ray node.

    ``replicas_wanted`` is ``offsets.topic.replication.factor``. ``directories`` are the ids of
    the data directories that the cluster was formed from, by node id; empty at the first start.
    ``replica_nodes`` are the nodes of each partition, the preferred leader first; empty: each
    partition's replicas are on consecutive nodes. ``environment`` is added to that of the
    coordinators, the controller and assignor workers.
    """

    cluster_id: str
    places: tuple[CoordinatorPlace, ...]
    console: Address
    data_dir: str
    overrides: Mapping[str, str]
    workers: int
    replicas_wanted: int = 1
    directories: tuple[str, ...] = ()
    replica_nodes: tuple[tuple[int, ...], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        """The number of ``__consumer_offsets`` partitions, and of coordinators."""
        return len(self.places)

    @property
    def bootstrap(self) -> str:
        """The value of ``bootstrap.servers`` for clients."""
        return ",".join(str(place.advertised) for place in self.places)

    @property
    def replicas(self) -> int:
        """The replicas of each partition: at most one per coordinator."""
        return min(self.replicas_wanted, self.partitions)

    @property
    def shortage(self) -> str:
        """A sentence if there are fewer replicas than configured, or too few hosts; else empty."""
        from failover.control.host_placement import missing

        if self.replicas == self.replicas_wanted:
            hosts = [place.ray_host for place in self.places]
            return missing(hosts, self.replicas) if any(hosts) else ""
        there = (
            "is 1 coordinator" if self.partitions == 1 else f"are {self.partitions} coordinators"
        )
        held = "1 replica" if self.replicas == 1 else f"{self.replicas} replicas"
        return (
            f"{REPLICATION_FACTOR} is {self.replicas_wanted}, but there {there}: "
            f"each partition has {held}"
        )

    def identity(self, node_id: int, directory_id: str, directories: Sequence[str]) -> Identity:
        """Return the identity of node ``node_id`` in a cluster formed from these directories.

        A directory that is not one of them started empty: the leaders must admit its replicas.
        """
        from failover.identity import CATALOG_PARTITION, Identity
        from storage.messages import ReplicaKey

        voters: dict[int, tuple[ReplicaKey, ...]] = {}
        if directories[node_id] == directory_id:
            voters[CATALOG_PARTITION] = tuple(
                ReplicaKey(number, directories[number]) for number in self.catalog_voters()
            )
            for partition, nodes in enumerate(self.placement()):
                voters[partition] = tuple(ReplicaKey(one, directories[one]) for one in nodes)
        return Identity(
            node_id=node_id,
            directory_id=directory_id,
            cluster_id=self.cluster_id,
            nodes=tuple(range(self.partitions)),
            placement=self.placement(),
            voters=voters,
        )

    def with_place(self, node_id: int, place: CoordinatorPlace) -> ClusterSpec:
        """Return the cluster with a coordinator at another place."""
        places = (*self.places[:node_id], place, *self.places[node_id + 1 :])
        return replace(self, places=places)

    def node(self, node_id: int, *, up: bool) -> Node:
        """Return node ``node_id`` as the catalogue records it; only itself may say that it is up.

        What others do not know of it is left out then: the catalogue keeps that.
        """
        address = self.places[node_id].advertised
        rack = self.overrides.get("broker.rack") or None
        node = Node(node_id, address.host, address.port, up, rack)
        return node.with_levels(SUPPORTED) if up else node

    def preferred(self, node_id: int) -> list[int]:
        """Return the partitions that a node should lead; the catalogue's is last."""
        from failover.partition_kinds import CATALOG, replicas

        placed = replicas(self.placement()).items()
        preferred = [number for number, nodes in placed if nodes[0] == node_id]
        if self.catalog_voters()[0] == node_id:
            preferred.append(CATALOG.first)
        return preferred

    def nodes_of(self, partition: int) -> tuple[int, ...]:
        """Return the nodes with voting replicas of a partition, the preferred leader first."""
        from failover.partition_kinds import replicas

        return replicas(self.placement()).get(partition, self.catalog_voters())

    def placement(self) -> tuple[tuple[int, ...], ...]:
        """Return the nodes of each partition, the preferred leader first."""
        if self.replica_nodes:
            return self.replica_nodes
        count = self.partitions
        return tuple(
            tuple((first + more) % count for more in range(self.replicas)) for first in range(count)
        )

    def catalog_voters(self) -> tuple[int, ...]:
        """Return the nodes whose replicas of the catalogue vote; the others are observers."""
        return tuple(range(self.replicas))

    def can_lose(self, nodes: Collection[int]) -> bool:
        """Whether every partition has a majority of its replicas on nodes other than these."""
        return all(
            2 * sum(node_id not in nodes for node_id in replicas) > len(replicas)
            for replicas in (self.catalog_voters(), *self.placement())
        )

    def log_path(self, node_id: int) -> Path:
        """Return the directory of a node's log."""
        return Path(self.data_dir) / f"node-{node_id}"

    def incidents_path(self) -> Path:
        """Return the directory of the files with the events before faults."""
        return Path(self.data_dir) / "incidents"

    def stories_path(self, node_id: int) -> Path:
        """Return the file with the stories of rebalances that a node remembers."""
        return Path(self.data_dir) / "rebalances" / f"node-{node_id}.jsonl"

    def text_log_path(self, name: str) -> Path:
        """Return the log file of one process."""
        return Path(self.data_dir) / "logs" / f"{name}.log"

    def traces_path(self, name: str) -> Path:
        """Return the file of one process for traces, if no variable says where they go."""
        return Path(self.data_dir) / "traces" / f"{name}.jsonl"
