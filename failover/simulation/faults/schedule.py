"""What injectors of faults have in common: random choices, cut links, lost disks, a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from failover.simulation.cluster import SimulatedCluster
    from failover.simulation.nodes.process import Process


Kinds: TypeAlias = "Mapping[str, Callable[[Any], Any]]"
"""The actions, by the name of the kind."""

Pairs: TypeAlias = "list[tuple[int, int]]"
"""Links, each by the node that sends and the node that receives."""

TRY_MS: Final = 500
TRIES: Final = 60


class FaultSource:
    """One injector's random choices, and the links that it has cut."""

    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._rng = cluster.world.random(name)
        self._is_on = False
        self._cuts: list[Pairs] = []

    def _draw(self, bounds: tuple[int, int]) -> int:
        """Return a random duration; short and long ones are equally likely."""
        low, high = bounds
        return int(low * (high / low) ** self._rng.random())

    def _links_of(self, node_id: int) -> Pairs:
        """Return the links between a node and all others, in both directions."""
        others = [process.node_id for process in self._cluster.processes]
        others.remove(node_id)
        return [pair for other in others for pair in ((node_id, other), (other, node_id))]

    def _sever(self, pairs: Pairs, duration_ms: int) -> None:
        """Cut links for a while."""
        self._cuts.append(pairs)
        self._cluster.network.sever(pairs)
        self._world.after(duration_ms, self._mend, pairs)

    def _mend(self, pairs: Pairs) -> None:
        if pairs in self._cuts:
            self._cuts.remove(pairs)
            self._cluster.network.mend(pairs)

    def _mend_all(self) -> None:
        """Mend every link that is still cut."""
        for pairs in self._cuts:
            self._cluster.network.mend(pairs)
        self._cuts.clear()

    def _any(self) -> Process:
        """Return a random process; half of the time one that leads a partition."""
        leading = self._cluster.leading_nodes()
        if leading and self._rng.random() < 0.5:
            return self._cluster.processes[self._rng.choice(leading)]
        return self._rng.choice(self._cluster.processes)

    def _when_bearable(self, action: Callable[[], None], tries: int = TRIES) -> None:
        """Run ``action``, which costs a disk, once the cluster can afford that, or give up."""
        if not self._is_on:
            return
        if self._cluster.may_lose_disk():
            action()
        elif tries:
            self._world.after(TRY_MS, self._when_bearable, action, tries - 1)

    def _lose_disks(self, node_id: int, two_at_once: float, gone_ms: tuple[int, int]) -> None:
        """Lose a node's disk; of five replicas sometimes the next node's too."""
        doomed = [node_id]
        if self._world.settings.replication >= 5 and self._rng.random() < two_at_once:
            doomed.append((node_id + 1) % len(self._cluster.processes))
            self._world.fault("two disks lost", f"nodes {doomed} die and their disks are gone")
        for each in doomed:
            self._world.fault("lose disk", f"node {each} dies and its disk is gone")
            self._cluster.lose_disk(each)
            self._world.after(self._draw(gone_ms), self._cluster.start, each)


class FaultSchedule(FaultSource):
    """Schedules the next fault of each kind at a random time from the seed, while it is on.

    ``rates`` has the mean time in milliseconds by the name of each kind; 0: never.
    """

    KINDS: ClassVar[Kinds]

    def __init__(self, cluster: SimulatedCluster, name: str, rates: object) -> None:
        super().__init__(cluster, name)
        self._rates = rates

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
