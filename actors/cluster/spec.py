"""What a cluster is, as values: handed to every actor, kept nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from failover.catalogue.cluster_view import Node

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from failover.identity import Identity

REPLICATION_FACTOR = "offsets.topic.replication.factor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where something listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A cluster: who listens where, on what data, under which configs.

    Coordinator *i* is node *i* and leads ``__consumer_offsets`` partition *i*. ``overrides`` are
    the configs that differ from their defaults, as text.

    ``replicas_wanted`` is ``offsets.topic.replication.factor``. ``secret`` is what coordinators
    prove to know. ``directories`` are the ids of the data directories that the cluster was formed
    of, by node id; none at its first start, when nobody knows them yet.
    """

    cluster_id: str
    listeners: tuple[Address, ...]
    console: Address
    data_dir: str
    overrides: Mapping[str, str]
    workers: int
    secret: bytes = field(repr=False)
    replicas_wanted: int = 1
    directories: tuple[str, ...] = ()

    @property
    def partitions(self) -> int:
        """How many ``__consumer_offsets`` partitions, and coordinators, there are."""
        return len(self.listeners)

    @property
    def bootstrap(self) -> str:
        """The listeners as clients take them."""
        return ",".join(str(address) for address in self.listeners)

    @property
    def replicas(self) -> int:
        """How many replicas each partition has: no more than there are coordinators."""
        return min(self.replicas_wanted, self.partitions)

    @property
    def shortage(self) -> str:
        """Say, if so, that there are fewer replicas than were asked for."""
        if self.replicas == self.replicas_wanted:
            return ""
        there = (
            "is 1 coordinator" if self.partitions == 1 else f"are {self.partitions} coordinators"
        )
        held = "1 replica" if self.replicas == 1 else f"{self.replicas} replicas"
        return (
            f"{REPLICATION_FACTOR} is {self.replicas_wanted}, but there {there}: "
            f"each partition has {held}"
        )

    def identity(self, node_id: int, directory_id: str, directories: Sequence[str]) -> Identity:
        """Return who node ``node_id`` is, if the cluster was formed of these directories.

        A directory that is none of them began empty: its replicas must be let in by who leads.
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

    def node(self, node_id: int, *, up: bool) -> Node:
        """Return node ``node_id`` as the catalogue knows it."""
        address = self.listeners[node_id]
        rack = self.overrides.get("broker.rack") or None
        return Node(node_id, address.host, address.port, up, rack)

    def preferred(self, node_id: int) -> list[int]:
        """Return the partitions that a node is to lead if it can; the catalogue's comes last."""
        from failover.identity import CATALOG_PARTITION

        first = [nodes[0] for nodes in self.placement()]
        preferred = [number for number, leader in enumerate(first) if leader == node_id]
        if self.catalog_voters()[0] == node_id:
            preferred.append(CATALOG_PARTITION)
        return preferred

    def placement(self) -> tuple[tuple[int, ...], ...]:
        """Return the nodes of each partition, the preferred leader first."""
        count = self.partitions
        return tuple(
            tuple((first + more) % count for more in range(self.replicas)) for first in range(count)
        )

    def catalog_voters(self) -> tuple[int, ...]:
        """Return the nodes whose replicas of the catalogue count; the others only follow."""
        return tuple(range(self.replicas))

    def can_lose(self, nodes: Collection[int]) -> bool:
        """Say whether every partition has a majority of its replicas on other nodes than these."""
        return all(
            2 * sum(node_id not in nodes for node_id in replicas) > len(replicas)
            for replicas in (self.catalog_voters(), *self.placement())
        )

    def log_path(self, node_id: int) -> Path:
        """Return the directory of a node's log."""
        return Path(self.data_dir) / f"node-{node_id}"

    def incidents_path(self) -> Path:
        """Return the directory of the files with what led to faults."""
        return Path(self.data_dir) / "incidents"

    def text_log_path(self, name: str) -> Path:
        """Return the file of log lines of one process."""
        return Path(self.data_dir) / "logs" / f"{name}.log"
