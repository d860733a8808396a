"""The identity of a process in its cluster, and of the other nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from failover.partition_kinds import CATALOG, kind_of, replicas
from storage.messages import ReplicaKey

if TYPE_CHECKING:
    from collections.abc import Mapping

CATALOG_PARTITION = CATALOG.first
"""The number of the catalogue's partition: every node holds a replica of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """This process's identity in its cluster.

    ``nodes`` are all nodes of the cluster; ``placement`` holds the nodes of each
    ``__consumer_offsets`` partition, the preferred leader first: the partitions of other kinds are
    placed in the same way (:mod:`failover.partition_kinds`). ``voters`` are the replicas that
    the groups' partitions and the catalogue (-1) started with, for use until the log says so. A
    node with none of them and an empty log must be admitted by the leader.
    """

    node_id: int
    directory_id: str
    cluster_id: str
    nodes: tuple[int, ...]
    placement: tuple[tuple[int, ...], ...]
    voters: Mapping[int, tuple[ReplicaKey, ...]]

    @property
    def partitions(self) -> int:
        """How many partitions ``__consumer_offsets`` has, and every other placed kind."""
        return len(self.placement)

    @property
    def holds(self) -> tuple[int, ...]:
        """The partitions of which this node has a replica, without the catalogue."""
        placed = replicas(self.placement).items()
        return tuple(number for number, nodes in placed if self.node_id in nodes)

    def first_voters(self, partition: int) -> tuple[ReplicaKey, ...]:
        """Return the replicas that a partition started with: those of the groups' placed alike.

        They never change, so that all nodes use the same, also where share state came later than
        the cluster.
        """
        kind = kind_of(partition)
        like = partition if kind is CATALOG else kind.index(partition)
        return self.voters.get(like, ())

    def nodes_of(self, partition: int) -> tuple[int, ...]:
        """Return the nodes with voting replicas of a partition, the preferred leader first."""
        return replicas(self.placement).get(partition, self.catalog_nodes)

    @property
    def me(self) -> ReplicaKey:
        """The key of this node's replicas."""
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def catalog_nodes(self) -> tuple[int, ...]:
        """The nodes that vote on the catalogue: as many as a partition has replicas."""
        replicas = max((len(nodes) for nodes in self.placement), default=1)
        return self.nodes[:replicas]
