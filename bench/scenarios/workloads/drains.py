"""Drains of nodes, as ``kubectl drain`` carries them out on one after the other. Pure.

The pods of one application are spread over nodes. Those of a drained node are evicted, as many at
once as the budget of disruptions allows; what it does not allow is tried again. Pods that come
meanwhile are placed on the other node that has the fewest.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bench.scenarios.behaviours import Drain
    from bench.scenarios.workloads.fleet import Fleet
    from bench.scenarios.workloads.pods import Pod

RETRY_MS: Final = 5_000
"""``kubectl drain`` asks again this long after an eviction was refused."""


class NodeDrains:
    """The drains of one behaviour; ``later(delay_ms, action)`` calls something later."""

    def __init__(
        self, told: Drain, fleet: Fleet, later: Callable[[int, Callable[[], None]], None]
    ) -> None:
        self._told = told
        self._fleet = fleet
        self._later = later
        self._places: dict[Pod, int] = {}
        self._drained = 0

    def begin(self) -> None:
        """Spread the pods over the nodes, and drain the first one."""
        self._place(range(self._told.nodes))
        self._drain()

    def _place(self, nodes: Iterable[int]) -> None:
        """Place pods that have no node yet where the fewest are."""
        candidates = list(nodes)
        count = Counter(self._places[pod] for pod in self._fleet.pods if pod in self._places)
        for pod in self._fleet.pods:
            if pod not in self._places:
                self._places[pod] = node = min(candidates, key=lambda node: (count[node], node))
                count[node] += 1

    def _others(self) -> Iterator[int]:
        """Return the nodes that take pods while one is drained."""
        return (node for node in range(self._told.nodes) if node != self._drained)

    def _drain(self) -> None:
        self._place(self._others())
        left = [
            pod for pod in self._fleet.pods if pod.is_kept and self._places[pod] == self._drained
        ]
        for pod in left[: self._allowed()]:
            self._fleet.evict(pod)
        if any(pod.is_kept for pod in left):
            self._later(RETRY_MS, self._drain)
        elif self._drained + 1 < self._told.drained:
            self._later(self._told.every, self._next)

    def _next(self) -> None:
        """Take the drained node back, and drain the next one."""
        self._place(self._others())
        self._drained += 1
        self._drain()

    def _allowed(self) -> int:
        """Return how many more pods the budget allows to disrupt now."""
        wanted = self._fleet.wanted
        budget = self._told.max_unavailable.of(wanted, rounds_up=True)
        return max(budget - (wanted - self._fleet.ready()), 0)
