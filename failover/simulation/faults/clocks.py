"""Faults of wall clocks that are wrong from a machine's start, and of two at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from failover.common_time import AGREE_MS
from failover.simulation.faults.schedule import FaultSchedule, Kinds

if TYPE_CHECKING:
    from failover.simulation.cluster import SimulatedCluster
    from failover.simulation.nodes.process import Process

WRONG_MS: Final = (1_000, 3 * 86_400_000)
APART_MS: Final = 3 * AGREE_MS
"""Two wrong clocks differ by more than this: no majority may agree on a wrong time."""

TWO_WRONG: Final = 0.4
ALL_START: Final = 0.3
FIRST: Final = 0.5
"""How often two clocks are wrong, all machines start at once, or the first start is wrong."""

GONE_MS: Final = (300, 20_000)


class ClockInjector(FaultSchedule):
    """Lets machines start with wrong wall clocks, and sets two at once, until :meth:`end`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster, "clock faults", cluster.world.settings.clock_faults)

    def before_the_first_start(self) -> None:
        """Make clocks wrong before any process has started, in some of the seeds."""
        if self._world.settings.clock_faults.wrong_start and self._rng.random() < FIRST:
            self._make_wrong("clock starts wrong", self._drawn())

    def begin(self) -> None:
        """Start every kind whose rate is not 0."""
        self._begin()

    def end(self) -> None:
        """Set all clocks right."""
        self._is_on = False
        for process in self._cluster.processes:
            process.set_wall(0)

    def _drawn(self) -> list[Process]:
        """Return the nodes whose clocks are to be wrong: one or two."""
        count = 2 if self._rng.random() < TWO_WRONG else 1
        return self._rng.sample(self._cluster.processes, count)

    def _make_wrong(self, kind: str, wrong: list[Process]) -> None:
        """Set the clocks of some nodes wrong, each in its own way, and correct those of others."""
        errors_ms: list[int] = []
        while len(errors_ms) < len(wrong):
            error_ms = self._rng.choice((-1, 1)) * self._draw(WRONG_MS)
            if all(abs(error_ms - other) > APART_MS for other in errors_ms):
                errors_ms.append(error_ms)
        if len(wrong) > 1:
            self._world.fault("two clocks wrong", f"nodes {[each.node_id for each in wrong]}")
        error_of = {each.node_id: ms for each, ms in zip(wrong, errors_ms, strict=True)}
        for node_id, error_ms in error_of.items():
            self._world.fault(kind, f"node {node_id}, by {error_ms} ms")
        for process in self._cluster.processes:
            process.set_wall(error_of.get(process.node_id, 0))

    def _wrong_start(self) -> None:
        """Restart machines, one or all of them: their clocks are wrong when they start."""
        wrong = self._drawn()
        restarted = self._cluster.processes if self._rng.random() < ALL_START else wrong
        for process in restarted:
            if process.is_alive:
                self._world.fault("kill", f"node {process.node_id} dies with its machine")
                process.kill(self._rng.randint(0, process.log.unsynced), 1)
                self._world.after(self._draw(GONE_MS), self._cluster.start, process.node_id)
        self._make_wrong("clock starts wrong", wrong)

    def _two_wrong(self) -> None:
        """Set two wall clocks wrong, while their nodes run."""
        self._make_wrong("wall clock set", self._rng.sample(self._cluster.processes, 2))

    KINDS: ClassVar[Kinds] = {"wrong_start": _wrong_start, "two_wrong": _two_wrong}
