"""Three coordinators on one event loop: real sockets, protocol, log and elections, without Ray.

Each has its own listener, data directory and replica links, as in any cluster. What Ray does there
(calls between processes, the controller's advice who should lead) is done here by calls.
"""

from __future__ import annotations

import asyncio
import os
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from actors.cluster.listening_ports import LOCAL_HOST, choose_ports
from actors.cluster.spec import REPLICATION_FACTOR, Address, ClusterSpec, on_one_host
from actors.coordinator.coordinator import Coordinator
from actors.errors import FailureError
from actors.waiting import poll_async
from actors.workers.assignor import AssignorWorker
from failover.partition_kinds import CATALOG, replicas
from failover.routing import partition_for
from protocol.groups.classic import membership
from protocol.groups.effects import TimersDue
from protocol.groups.modern import group as modern
from protocol.groups.shard import GroupShard
from protocol.groups.streams.group import StreamsGroup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kio.static.protocol import Entity

    from actors.coordinator.pump import Observer, Pump
    from actors.testing.faults import InjectedFaults
    from failover.catalogue.cluster_view import Node
    from protocol.groups.effects import Request
    from protocol.groups.streams.topology import StreamsTopology
    from storage.disk.rocks import RocksLog

NODES: Final = 3
CONFIGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "log.flush": "os",
    "offsets.topic.num.partitions": str(NODES),
    REPLICATION_FACTOR: str(NODES),
}
"""What differs from the defaults: nothing waits for members that a test does not have."""

READY_S: Final = 30.0
KNOWN_S: Final = 10.0
ELECTED_S: Final = 30.0
LOOK_S: Final = 0.01
LOOKS_PER_ELECTION: Final = 30
"""A candidate gets this long before somebody stands again."""


class LocalCluster:
    """The coordinators of one cluster; every method but the constructor runs on the event loop."""

    def __init__(
        self,
        directory: Path,
        overrides: Mapping[str, str],
        observer: Observer,
        faults: InjectedFaults,
    ) -> None:
        """Choose free ports; :meth:`start` checks the ``overrides``."""
        ports = choose_ports([Address(host=LOCAL_HOST, port=0)] * NODES)
        self.spec = ClusterSpec(
            cluster_id="of-an-application-test",
            places=on_one_host(LOCAL_HOST, ports),
            console=Address(host=LOCAL_HOST, port=0),
            data_dir=str(directory),
            overrides={**CONFIGS, **overrides},
            workers=1,
            replicas_wanted=NODES,
        )
        self.observer = observer
        self.faults = faults
        self.secret = os.urandom(16)
        self.worker = LocalWorker()
        self.nodes: list[LocalCoordinator] = []

    async def start(self) -> None:
        """Start all coordinators and wait until clients can use them.

        Assignors are compiled before, once per installation, as no test waits for so long.
        Raises FailureError, or :class:`protocol.config.ConfigError` if an override is wrong.
        """
        await self.worker.warm_up()
        self.nodes += [LocalCoordinator(self, node_id) for node_id in range(NODES)]
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            await self._await_ready(node)

    async def stop(self) -> None:
        """Stop all coordinators."""
        for node in self.nodes:
            await node.stop()

    @property
    def alive(self) -> list[LocalCoordinator]:
        """The coordinators that were not killed."""
        return [node for node in self.nodes if node.state != KILLED]

    def coordinator_of(self, group_id: str) -> int:
        """Return the node that leads a group's partition; -1: none does now."""
        return self._leader(partition_for(group_id, NODES))

    async def move(self, group_id: str, node_id: int | None) -> int:
        """Move a group's partition to another coordinator; return that one's node id.

        Raises ValueError with a sentence, and FailureError if it has not moved in time.
        """
        partition, before = partition_for(group_id, NODES), self.coordinator_of(group_id)
        others = [node.node_id for node in self.alive if node.node_id != before]
        if before < 0 or not others:
            raise FailureError("There is no coordinator to move the group from or to.")
        target = others[0] if node_id is None else node_id
        if target not in others:
            raise ValueError(f"the group can move to {others}, not to {target!r}")
        self.nodes[before].transfer(partition, target)
        moved = await poll_async(
            lambda: self._is_known(partition, target), ELECTED_S, every_s=LOOK_S
        )
        if not moved:
            raise FailureError(f"Group {group_id} did not move to coordinator {target} in time.")
        return target

    async def kill(self, node_id: int) -> None:
        """End a coordinator as ``kill -9`` does; return when others lead what it led."""
        if not 0 <= node_id < NODES or self.nodes[node_id] not in self.alive:
            raise ValueError(f"there is no living coordinator {node_id!r}")
        if len(self.alive) * 2 - 2 < NODES:
            raise ValueError("a majority must live: start the other coordinator first")
        self.nodes[node_id].kill()
        await self._await_leaders()
        if not await poll_async(lambda: self._is_shown_down(node_id), KNOWN_S, every_s=LOOK_S):
            raise FailureError(f"Not every coordinator knows in time that {node_id} is down.")

    async def restart(self) -> list[int]:
        """Start the coordinators again that were killed; return their node ids."""
        dead = [node.node_id for node in self.nodes if node not in self.alive]
        for node_id in dead:
            self.nodes[node_id] = LocalCoordinator(self, node_id)
            self.nodes[node_id].start()
        for node_id in dead:
            await self._await_ready(self.nodes[node_id])
        return dead

    def expire(self, group_id: str, member_id: str) -> bool:
        """End a member's session now, as its timeout would; False if nobody leads the group."""
        node_id = self.coordinator_of(group_id)
        return node_id >= 0 and self.nodes[node_id].expire(group_id, member_id)

    def topology(self, group_id: str) -> StreamsTopology | None:
        """Return a streams group's topology; None if nobody leads it, or it has none."""
        node_id = self.coordinator_of(group_id)
        return None if node_id < 0 else self.nodes[node_id].topology(group_id)

    async def until_told(self) -> None:
        """Wait until the rebalances that have ended are in the coordinators' histories."""
        await poll_async(
            lambda: all(node.has_told() for node in self.alive), KNOWN_S, every_s=LOOK_S
        )

    async def until_known(self, topic: str) -> None:
        """Wait until every coordinator knows a topic. Raises FailureError."""
        if not await poll_async(
            lambda: all(node.knows(topic) for node in self.alive), KNOWN_S, every_s=LOOK_S
        ):
            raise FailureError(f"Not every coordinator knows topic {topic} in time.")

    async def _await_ready(self, node: LocalCoordinator) -> None:
        try:
            await asyncio.wait_for(node.ready.wait(), READY_S)
        except TimeoutError:
            raise FailureError(f"Coordinator {node.node_id} is not ready in time.") from None
        if node.failure:
            raise FailureError(node.failure)

    def _leader(self, partition: int) -> int:
        leaders = [node.node_id for node in self.alive if partition in node.leads()]
        return leaders[-1] if len(leaders) == 1 else -1

    def _is_shown_down(self, node_id: int) -> bool:
        """Tell the catalogue that a node is down, as the controller does, until all know it."""
        if all(node.believes_down(node_id) for node in self.alive):
            return True
        for node in self.alive:
            node.node_changed(self.spec.node(node_id, up=False))
        return False

    async def _await_leaders(self) -> None:
        """Let somebody stand for each partition without a leader, until all nodes know a leader."""
        placed = {**replicas(self.spec.placement()), CATALOG.first: self.spec.catalog_voters()}
        living = {node.node_id for node in self.alive}
        rounds = count()

        def look() -> bool:
            may_stand = next(rounds) % LOOKS_PER_ELECTION == 0
            for partition, voters in placed.items():
                if self._leader(partition) < 0 and may_stand:
                    first = next(one for one in voters if one in living)
                    self.nodes[first].campaign(partition)
            return all(self._is_known(one, self._leader(one)) for one in placed)

        if not await poll_async(look, ELECTED_S, every_s=LOOK_S):
            raise FailureError("Not every partition has a leader in time.")

    def _is_known(self, partition: int, leader: int) -> bool:
        """Return whether a node leads a partition, as all nodes know."""
        return leader == self._leader(partition) >= 0 and all(
            node.believed_leader(partition) == leader for node in self.alive
        )


KILLED: Final = "Killed"


class LocalCoordinator(Coordinator):
    """A coordinator of such a cluster: it can be killed, has faults, and ends sessions early."""

    def __init__(self, cluster: LocalCluster, node_id: int) -> None:
        control_plane = Neighbours(cluster.nodes, cluster.secret)
        super().__init__(
            cluster.spec, node_id, control_plane, cluster.observer, workers=cluster.worker
        )
        self._faults = cluster.faults
        cluster.faults.slow(self._dispatcher)

    async def _prepare(self) -> None:
        """Prepare no API version: most tests use few, and nobody else waits for their first use."""
        self._is_prepared = True
        self._look_around()

    def _begin(self, disk: RocksLog) -> Pump:
        pump = super()._begin(disk)
        self._faults.install(pump)
        return pump

    def kill(self) -> None:
        """Close all sockets and forget all memory at once: nothing is handed over or saved."""
        self._faults.uninstall(self._pump)
        self.state = KILLED
        self._tasks.cancel()
        if self._beating is not None:
            self._beating.cancel()
        self._close()

    def believed_leader(self, partition: int) -> int:
        """Return who leads a partition as this node knows; -1: nobody."""
        return -1 if self._pump is None else self._pump.host.leader_of(partition)

    def believes_down(self, node_id: int) -> bool:
        """Return whether this node's catalogue says that a node is down."""
        found = None if self._pump is None else self._pump.host.view.catalog.nodes.get(node_id)
        return found is not None and not found.up

    def has_told(self) -> bool:
        """Return whether no fact waits to be told as a story."""
        return self._pump is None or self._pump.has_told

    def knows(self, topic: str) -> bool:
        """Return whether this node's catalogue has a topic."""
        return self._pump is not None and topic in self._pump.host.view.catalog.topics

    def expire(self, group_id: str, member_id: str) -> bool:
        """End a member's session now; False if its group is not led here."""
        shard = self._shard(group_id)
        if shard is None:
            return False
        _end_session(shard, group_id, member_id, self.now())
        self._computed(partition_for(group_id, NODES), TimersDue())
        return True

    def topology(self, group_id: str) -> StreamsTopology | None:
        """Return the topology of a streams group that is led here."""
        shard = self._shard(group_id)
        group = None if shard is None else shard._context.groups.get(group_id)
        return group.topology if isinstance(group, StreamsGroup) else None

    def _shard(self, group_id: str) -> GroupShard | None:
        """Return the groups of a group's partition; None if it is not led here."""
        partition = partition_for(group_id, NODES)
        if self._pump is None or partition not in self.leads():
            return None
        for each in self._pump.host.partitions:
            if each.number == partition and isinstance(each.machine, GroupShard):
                return each.machine
        return None


def _end_session(shard: GroupShard, group_id: str, member_id: str, now: int) -> None:
    """Move the end of a member's session to now."""
    ctx = shard._context
    classic, runtime = ctx.classic_runtime.get(group_id), ctx.modern_runtime.get(group_id)
    if classic is not None and member_id in classic.members:
        membership.arm(ctx, classic, classic.members[member_id], now)
    elif runtime is not None and member_id in runtime.sessions:
        modern.arm(ctx, runtime, runtime.sessions[member_id], now)


class LocalWorker:
    """The one assignor worker of the cluster: it runs assignors in a thread of this process."""

    here = ""

    def __init__(self) -> None:
        self._worker = AssignorWorker()

    async def warm_up(self) -> None:
        """Load the compiled assignors, or compile them."""
        await self._worker.warm_up()

    async def ask(self, worker: int, method: str, *arguments: object, wait_s: float | None) -> Any:
        """Call a method of the worker."""
        del worker, wait_s  # there is one, and it lives as long as its callers
        return await getattr(self._worker, method)(*arguments)

    async def tell(self, worker: int, method: str, *arguments: object) -> None:
        """Call a method of the worker, whose result nobody needs."""
        await self.ask(worker, method, *arguments, wait_s=None)


class Neighbours:
    """The ``nodes`` of the same event loop, as a coordinator's control plane.

    The list may be filled later, and its nodes may be replaced.
    """

    def __init__(self, nodes: Sequence[Coordinator], secret: bytes) -> None:
        self._nodes = nodes
        self.secret = secret

    async def forward(self, node_id: int, request: Request) -> Entity | None:
        """Let another node answer a request."""
        return await self._nodes[node_id].forwarded_here(request)

    async def node_changed(self, leader: int, node: Node) -> bool:
        """Tell the catalogue's leader of a node."""
        return self._nodes[leader].node_changed(node)

    async def directories(self) -> tuple[str, ...]:
        """Return the ids of all nodes' directories, once they are open."""
        for node in self._nodes:
            await node.opened.wait()
        return tuple(node.directory_id for node in self._nodes)

    async def peer_address(self, node_id: int) -> tuple[str, int] | None:
        """Return where a node listens to the others."""
        return self._nodes[node_id].peer_address()

    async def announce_peer_address(self, node_id: int, host: str, port: int) -> None:
        """Tell all nodes where one listens."""
        for node in self._nodes:
            node.peer_moved(node_id, host, port)

    async def announce(self, node_id: int, pid: int) -> bool:
        """Tell nobody of a node's process."""
        del node_id, pid  # there is no controller to tell
        return True
