"""Check that every partition answers again within a bounded time after the last fault."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from kio.schema.read_share_group_state_summary.v1 import request as summary_request

from failover.partition_kinds import SHARE_STATE, kind_of
from failover.routing import partition_for
from failover.simulation.clients.administrator import AdminCall
from failover.simulation.event_log import Violation
from protocol.groups.share_state.keys import partition_finder
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from failover.simulation.cluster import SimulatedCluster
    from failover.simulation.nodes.process import Process

PROBE_MS: Final = 1_500
"""How often to send a request to each partition."""

PROBE: Final = "probe"
"""The group whose share state is asked for."""

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
        self._down: dict[Process, int] = {}
        self.bound_ms = SILENT_ELECTIONS * settings.replica_election_ms
        self.longest_ms = 0

    def begin(self) -> None:
        """Start to ask; the last fault is over."""
        share_state = SHARE_STATE.numbers(self._world.settings.partitions)
        self._silent = {*self._groups, *share_state}
        self._began = self._world.now
        self._down = {each: each.life for each in self._cluster.processes if not each.is_alive}
        self._ask()

    def silent(self) -> str:
        """Return which partitions are still to answer; empty: none."""
        return f"partitions {sorted(self._silent)} are silent" if self._silent else ""

    def _ask(self) -> None:
        self._begin_anew_when_all_started()
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

    def _begin_anew_when_all_started(self) -> None:
        """Count from when every process has started that the last faults had ended."""
        if self._down:
            self._began = self._world.now
            self._down = {each: life for each, life in self._down.items() if each.life == life}

    def _probe(self, number: int) -> None:
        ask = self._ask_share_state if kind_of(number) is SHARE_STATE else self._ask_group
        for process in self._cluster.processes:
            if process.leads(number) is not None:
                ask(number, process.node_id)

    def _ask_group(self, number: int, node_id: int) -> None:
        def take(response: Any) -> None:
            if response is not None and response.groups[0].error_code is ErrorCode.none:
                self._has_answered(number)

        group = m.OffsetFetchRequestGroup(group_id=self._groups[number], topics=None)
        call = AdminCall(self._world, self._cluster.network, node_id, take)
        call.send(m.OffsetFetchRequest(groups=(group,)))

    def _ask_share_state(self, number: int, node_id: int) -> None:
        """Ask for the share state of a partition of no topic: that is refused."""

        def take(response: Any) -> None:
            refused = ErrorCode.invalid_request
            if response is not None and response.results[0].partitions[0].error_code is refused:
                self._has_answered(number)

        find = partition_finder(PROBE, None, self._world.settings.partitions)
        asked = next(each for each in count() if find(each) == SHARE_STATE.index(number))
        part = summary_request.PartitionData(partition=asked, leader_epoch=-1)
        topic = summary_request.ReadStateSummaryData(topic_id=None, partitions=(part,))
        call = AdminCall(self._world, self._cluster.network, node_id, take)
        call.send(m.ReadShareGroupStateSummaryRequest(group_id=PROBE, topics=(topic,)))

    def _has_answered(self, number: int) -> None:
        self._silent.discard(number)
        self.longest_ms = max(self.longest_ms, self._world.now - self._began)


def _group_of(number: int, partitions: int) -> str:
    """Return the id of a group of a partition."""
    names = (f"probe-{at}" for at in count())
    return next(name for name in names if partition_for(name, partitions) == number)
