"""State of one process: its partitions, its knowledge of the cluster, its pending effects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from failover.effects import Effects
from failover.identity import CATALOG_PARTITION
from failover.partition_kinds import GROUPS, kind_of
from failover.partitions.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from failover.catalogue.cluster_view import ClusterView
    from failover.identity import Identity
    from failover.leaders import Leaders
    from failover.partitions.partition import Partition


@dataclass(slots=True, eq=False)
class HostState:
    """``placed`` are the partitions spread over nodes, by number; ``all`` includes the catalogue's.

    ``groups`` are those of them with groups.
    ``view`` is what this node knows about the cluster, ``leaders`` the leader of each partition,
    ``unlinked`` the nodes to which the link is broken. ``effects`` collects what to do in this
    turn.
    """

    identity: Identity
    catalog: Partition
    leaders: Leaders
    view: ClusterView
    placed: Mapping[int, Partition] = field(default_factory=dict)
    unlinked: set[int] = field(default_factory=set)
    effects: Effects = field(default_factory=Effects)
    groups: Mapping[int, Partition] = field(init=False)
    all: Mapping[int, Partition] = field(init=False)
    schedule: Schedule = field(init=False)

    def __post_init__(self) -> None:
        self.set_placed({})

    def set_placed(self, placed: Mapping[int, Partition]) -> None:
        """Set the partitions spread over nodes: once, before any request reaches them."""
        self.placed = placed
        self.groups = {n: one for n, one in placed.items() if kind_of(n) is GROUPS}
        self.all = {CATALOG_PARTITION: self.catalog, **placed}
        self.schedule = Schedule(self.all)
