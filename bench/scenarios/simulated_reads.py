"""Reads of committed offsets beside simulated members (:mod:`bench.scenarios.reads`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bench.scenarios.reads import KeptReads, OffsetsRead, ReadTurns
from failover.simulation.clients.administrator import AdminCall
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import OffsetFetchRequest, OffsetFetchRequestGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.scenarios.scenario import Scenario
    from failover.simulation.cluster import SimulatedCluster
    from protocol.wire.embedded import TopicPartition


class SimulatedReader:
    """Reads from now on; ``ids`` are the ids of the groups. What is not answered is no read."""

    def __init__(
        self, scenario: Scenario, cluster: SimulatedCluster, ids: Mapping[str, str]
    ) -> None:
        self.kept = KeptReads()
        self._cluster = cluster
        self._world = cluster.world
        self._ids = ids
        self._turns = ReadTurns(scenario)
        self._began_ms = cluster.world.now
        self._next = 0  # the number of the next turn: a fault lets an earlier one come in its place
        self._is_over = False
        self._wait()

    @property
    def now_ms(self) -> int:
        """The time since the begin."""
        return self._world.now - self._began_ms

    def hurry(self) -> None:
        """Read at once: there was a fault."""
        self._turns.hurry(self.now_ms)
        self._wait()

    def end(self) -> None:
        """Read no more."""
        self._is_over = True

    def _wait(self) -> None:
        wait_ms = self._turns.wait_ms(self.now_ms)
        if wait_ms is not None:
            self._next += 1
            self._world.after(wait_ms, self._turn, self._next)

    def _turn(self, number: int) -> None:
        if number != self._next or self._is_over or self.kept.are_full:
            return
        group = self._turns.take(self.now_ms)
        asked = OffsetFetchRequestGroup(group_id=self._ids[group], topics=None)
        then = partial(self._take, group, self._world.client_now)
        network = self._cluster.network
        call = AdminCall(self._world, network, self._leader(self._ids[group]), then)
        call.send(OffsetFetchRequest(groups=(asked,)))
        self._wait()

    def _leader(self, group_id: str) -> int:
        alive = (each for each in self._cluster.processes if each.host is not None)
        process = next(alive, self._cluster.processes[0])
        return process.leader_known(group_id)

    def _take(self, group: str, asked_ms: int, response: Any) -> None:
        if response is None or self._is_over:
            return
        (found,) = response.groups
        if found.error_code is ErrorCode.none:
            self.kept.add(OffsetsRead(group, asked_ms, self._world.client_now, _offsets(found)))


def _offsets(group: Any) -> dict[TopicPartition, int]:
    return {
        (topic.name, row.partition_index): row.committed_offset
        for topic in group.topics
        for row in topic.partitions
        if row.error_code is ErrorCode.none and row.committed_offset >= 0
    }
