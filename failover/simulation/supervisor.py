"""The controller that ships, driven in virtual time; it can be dead, stale or doubled."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from failover.simulation.cluster import Cluster


class Supervisor:
    """Runs the controller; without it election timeouts do its job."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def begin(self) -> None:
        """Start it."""

    def kill(self, gone_ms: int) -> None:
        """End it; it comes back after a while."""

    def restore(self) -> None:
        """Have exactly one that is well."""
