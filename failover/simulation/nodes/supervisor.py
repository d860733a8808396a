"""The controller that is shipped, in virtual time; it can be dead, stale, duplicated or erratic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from failover.catalogue.catalog import NodeChanged
from failover.control.leadership_planner import (
    Campaign,
    LeadershipPlanner,
    LeadershipTransfer,
    Order,
)
from failover.host import Host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from failover.partitions.status import PartitionStatus
    from failover.simulation.nodes.process import Process
    from failover.simulation.world import World

REBALANCE_MS = 5_000
"""``leader.imbalance.check.interval.seconds``: short, so that leadership does move back."""

LATE_MS = 20_000
"""The greatest age of the reports and orders of a stale controller."""


class Supervised(Protocol):
    """The cluster that a controller supervises (:mod:`failover.simulation.cluster`)."""

    world: World
    processes: list[Process]
    placement: tuple[tuple[int, ...], ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of all partitions, of every kind."""

    def tell_catalog(self, event: NodeChanged) -> None:
        """Tell the catalogue about a node."""


class Supervisor:
    """Runs the controller; without it election timeouts do its job."""

    def __init__(self, cluster: Supervised) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._rng = cluster.world.random("controller")
        self._controllers: list[LeadershipPlanner] = []
        self._draining: set[int] = set()
        self._is_stale = False
        self._is_mad = False
        self._troubles = 0

    def begin(self) -> None:
        """Start the controller, unless this world has none."""
        if self._world.settings.controller:
            self._controllers = [self._new()]
            self._look()

    def _new(self) -> LeadershipPlanner:
        cluster = self._cluster
        replication = self._world.settings.replication
        nodes = range(len(cluster.processes))
        catalog = tuple(nodes)[:replication]
        controller = LeadershipPlanner(nodes, cluster.placement, catalog, REBALANCE_MS)
        for node_id in self._draining:
            controller.drain(node_id)
        return controller

    # --- its faults

    def trouble(self, duration_ms: int) -> None:
        """Remove the controller for a while, or make it late, duplicated or erratic."""
        if not self._controllers:
            return
        kind = self._rng.choice(("dead", "stale", "doubled", "mad"))
        self._world.fault(f"controller {kind}", f"for {duration_ms} ms")
        if kind == "dead":
            self._controllers = []
        elif kind == "stale":
            self._is_stale = True
        elif kind == "doubled":
            self._controllers.append(self._new())
        else:
            self._is_mad = True
        self._troubles += 1
        self._world.after(duration_ms, self._trouble_over, self._troubles)

    def _trouble_over(self, trouble: int) -> None:
        if trouble == self._troubles:
            self.restore()

    def kill(self, gone_ms: int) -> None:
        """End it; it returns after a while with an empty state."""
        self._controllers = []
        self._troubles += 1
        self._world.after(gone_ms, self._trouble_over, self._troubles)

    def restore(self) -> None:
        """Run exactly one healthy controller, if this world has one at all."""
        self._is_stale = self._is_mad = False
        if self._world.settings.controller:
            self._controllers = self._controllers[:1] or [self._new()]

    def drain(self, node_id: int, is_draining: bool) -> None:
        """Keep leadership away from a node."""
        if is_draining:
            self._draining.add(node_id)
        else:
            self._draining.discard(node_id)
        for controller in self._controllers:
            controller.drain(node_id, is_draining)

    # --- its input

    def died(self, node_id: int) -> None:
        """Note that a process is gone, a little later."""
        self._world.after(self._delay(), self._down, node_id)

    def _down(self, node_id: int) -> None:
        if not self._cluster.processes[node_id].is_alive:
            for controller in self._controllers:
                controller.down(node_id)
            self._order()

    def _look(self) -> None:
        self._world.after(self._world.settings.look_ms, self._look)
        if not self._controllers:
            return
        for process in self._cluster.processes:
            if process.host is None:
                self._mark_down(process)
            elif not process.is_paused:
                delay_ms = self._delay()
                rows = process.host.status(process.local_now())
                self._world.after(delay_ms, self._report, process.node_id, rows)
        self._order()

    def _report(self, node_id: int, rows: Sequence[PartitionStatus]) -> None:
        for controller in self._controllers:
            controller.report(node_id, rows, self._world.client_now)

    def _mark_down(self, process: Process) -> None:
        """Let the catalogue record that nothing listens there."""
        for other in self._cluster.processes:
            if other.host is not None:
                node = other.host.view.catalog.nodes.get(process.node_id)
                if node is not None and node.up:
                    self._cluster.tell_catalog(NodeChanged(replace(node, up=False)))
                    return

    # --- its orders

    def _order(self) -> None:
        for controller in self._controllers:
            orders = controller.orders(self._world.client_now)
            if self._is_mad:
                orders.append(self._nonsense())
            for order in orders:
                self._world.after(self._delay(), self._carry, order)

    def _nonsense(self) -> Order:
        nodes = range(len(self._cluster.processes))
        partition = self._rng.choice(self._cluster.numbers)
        if self._rng.random() < 0.5:
            return Campaign(self._rng.choice(nodes), partition)
        return LeadershipTransfer(self._rng.choice(nodes), partition, self._rng.choice(nodes))

    def _carry(self, order: Order) -> None:
        process = self._cluster.processes[order.node_id]
        if self._world.tells:
            self._world.tell(f"partition {order.partition}", f"controller orders {order}")
        if isinstance(order, Campaign):
            process.event(Host.campaign, order.partition)
        else:
            process.event(Host.transfer, order.partition, order.to)

    def _delay(self) -> int:
        late_ms = int(self._rng.random() * LATE_MS) if self._is_stale else 0
        return 1 + int(self._rng.random() * 5) + late_ms
