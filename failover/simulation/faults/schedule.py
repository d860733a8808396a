"""Schedule faults of several kinds, each at its own rate: common to all injectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from failover.simulation.cluster import SimulatedCluster


Kinds: TypeAlias = "Mapping[str, Callable[[Any], Any]]"
"""The actions, by the name of the kind."""


class FaultSchedule:
    """Schedules the next fault of each kind at a random time from the seed, while it is on.

    ``rates`` has the mean time in milliseconds by the name of each kind; 0: never.
    """

    KINDS: ClassVar[Kinds]

    def __init__(self, cluster: SimulatedCluster, name: str, rates: object) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._rng = cluster.world.random(name)
        self._rates = rates
        self._is_on = False

    def _begin(self) -> None:
        self._is_on = True
        for name in self.KINDS:
            self._next(name)

    def _next(self, name: str) -> None:
        mean_ms = getattr(self._rates, name)
        if mean_ms:
            wait_ms = 1 + int(self._rng.expovariate(1 / mean_ms))
            self._world.after(wait_ms, self._inject, name)

    def _inject(self, name: str) -> None:
        if self._is_on:
            self.KINDS[name](self)
            self._next(name)

    def _draw(self, bounds: tuple[int, int]) -> int:
        """Return a random duration; short and long ones are equally likely."""
        low, high = bounds
        return int(low * (high / low) ** self._rng.random())
