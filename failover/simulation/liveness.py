"""Check that every partition answers again within a bounded time after the last fault."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from failover.routing import partition_for
from failover.simulation.clients.administrator import AdminCall
from failover.simulation.event_log import Violation
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from failover.simulation.cluster import SimulatedCluster

PROBE_MS: Final = 1_500
"""How often to send a request to each partition."""

SILENT_ELECTIONS: Final = 5
"""For how many election timeouts after the last fault a partition may be silent."""


class Liveness:
    """Asks every partition repeatedly until each has answered once."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        settings = cluster.world.settings
        self._groups = {
            number: _group_of(number, settings.partitions) for number in range(settings.partitions)
        }
        self._silent: set[int] = set()
        self._began = 0
        self.bound_ms = SILENT_ELECTIONS * settings.replica_election_ms
        self.longest_ms = 0

    def begin(self) -> None:
        """Start to ask; the last fault is over."""
        self._silent = set(self._groups)
        self._began = self._world.now
        self._ask()

    def _ask(self) -> None:
        waited_ms = self._world.now - self._began
        for number in sorted(self._silent):
            if waited_ms > self.bound_ms:
                raise Violation(
                    f"partition {number} has answered nobody for {waited_ms} ms since the last"
                    " fault",
                    f"partition {number}",
                )
            self._probe(number)
        if self._silent:
            self._world.after(PROBE_MS, self._ask)

    def _probe(self, number: int) -> None:
        group_id = self._groups[number]

        def take(response: Any) -> None:
            if response is not None and response.groups[0].error_code is ErrorCode.none:
                self._silent.discard(number)
                self.longest_ms = max(self.longest_ms, self._world.now - self._began)

        group = m.OffsetFetchRequestGroup(group_id=group_id, topics=None)
        for process in self._cluster.processes:
            if process.leads(number) is not None:
                ask = AdminCall(self._world, self._cluster.network, process.node_id, take)
                ask.send(m.OffsetFetchRequest(groups=(group,)))


def _group_of(number: int, partitions: int) -> str:
    """Return the id of a group of a partition."""
    names = (f"probe-{at}" for at in count())
    return next(name for name in names if partition_for(name, partitions) == number)
