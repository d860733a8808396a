"""What a cluster is, as values: handed to every actor, kept nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from failover.cluster_view import Node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from failover.identity import Identity

CATALOG_NODE = 0
"""The node that leads the catalogue, while a partition has one replica."""


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
    """

    cluster_id: str
    listeners: tuple[Address, ...]
    console: Address
    data_dir: str
    overrides: Mapping[str, str]
    workers: int

    @property
    def partitions(self) -> int:
        """How many ``__consumer_offsets`` partitions, and coordinators, there are."""
        return len(self.listeners)

    @property
    def bootstrap(self) -> str:
        """The listeners as clients take them."""
        return ",".join(str(address) for address in self.listeners)

    def identity(self, node_id: int) -> Identity:
        """Return who node ``node_id`` is."""
        from failover.identity import Identity
        from storage.messages import ReplicaKey

        def replica(number: int) -> ReplicaKey:
            return ReplicaKey(number, f"directory-{number}")

        nodes = tuple(range(self.partitions))
        return Identity(
            node_id=node_id,
            directory_id=replica(node_id).directory_id,
            cluster_id=self.cluster_id,
            nodes=nodes,
            placement=self.placement(),
            voters={-1: (replica(CATALOG_NODE),), **{n: (replica(n),) for n in nodes}},
        )

    def node(self, node_id: int, *, up: bool) -> Node:
        """Return node ``node_id`` as the catalogue knows it."""
        address = self.listeners[node_id]
        return Node(node_id, address.host, address.port, up)

    def placement(self) -> tuple[tuple[int, ...], ...]:
        """Return the nodes of each partition, the preferred leader first."""
        return tuple((node_id,) for node_id in range(self.partitions))

    def log_path(self, node_id: int) -> Path:
        """Return the directory of a node's log."""
        return Path(self.data_dir) / f"node-{node_id}"

    def text_log_path(self, name: str) -> Path:
        """Return the file of log lines of one process."""
        return Path(self.data_dir) / "logs" / f"{name}.log"
