"""The controller: watches the coordinators, and advises who should lead.

It is not needed for safety: replicas elect their leaders themselves, coordinators continue to serve
without it, and Ray restarts processes that die. This is a plain class;
``actors/deployment/actors.py`` makes it a Ray actor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from actors.clock import boot_ms
from actors.cluster.ray_peers import CONSOLE, UNREACHED, assignor_name, coordinator_name
from actors.deployment.drills import Drills
from actors.deployment.mover import Mover, reports_of
from actors.deployment.status import (
    LEADER,
    SERVING,
    cluster_status,
    console_moved,
    partition_status,
    problems,
)
from actors.logs.drains import drain_message
from actors.logs.orders import order_messages
from actors.tasks import Tasks
from failover.control.healing import may_set_aside
from failover.control.leadership_planner import (
    LOOK_MS,
    Campaign,
    LeadershipPlanner,
    LeadershipTransfer,
)
from failover.partition_kinds import PLACED
from protocol.config import Configs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from actors.cluster.spec import Address, ClusterSpec
    from actors.deployment.drills import ActorCaller
    from actors.deployment.host_watch import HostControl
    from actors.deployment.mover import Statuses
    from failover.control.leadership_planner import Order

_log = logging.getLogger("rollcall.controller")

RETRY_S: Final = 0.05
RETRY_S_MAX: Final = 0.5
STATUS_S: Final = 2.0
REPORT_S: Final = 0.3
"""A coordinator that takes longer to return its status is left out of this round."""

HAND_OVER_S: Final = 8.0
ELECTED_MS: Final = 5_000
ELECTED_LOOK_S: Final = 0.05
"""How long, and how often, is looked for the new leaders of partitions that were handed over."""

LOOK_S: Final = 2.0
"""How often the controller polls a healthy cluster; it notices a dead process at once."""

SEEN_MS: Final = 3_000
"""What the controller saw at its last look serves an overview for so long."""

PATIENCE_MS: Final = 5_000
"""How long to wait for all coordinators at the start: before the first order, and before one that
was never seen counts as down. A controller that restarts has seen none."""

SETTLE_S: Final = 5.0
"""How long a starting cluster waits at most for its preferred leaders."""

SETTLE_LOOK_S: Final = 0.1
"""How often the controller polls during that time."""

CONNECT_S: Final = 2.0
KEEP_ALIVE: Final = {
    socket.TCP_KEEPIDLE: 1,
    socket.TCP_KEEPINTVL: 1,
    socket.TCP_KEEPCNT: 4,
}
"""When a host vanishes, nothing ends its connections: the kernel asks it each second (1), and gives
up after so many questions without an answer."""


@dataclass(frozen=True, slots=True)
class MovedLeadership:
    """A leadership that a drain moved; ``leader`` is None if it could not be moved."""

    partition: int
    leader: int | None


@dataclass(slots=True)
class _WatchedNode:
    """The state of one coordinator."""

    node_id: int
    is_up: bool = True
    pid: int = 0
    starts: int = 0


class Controller:
    """The controller of one cluster."""

    def __init__(
        self, spec: ClusterSpec, actors: ActorCaller, hosts: HostControl | None = None
    ) -> None:
        """Without ``hosts``, no coordinator is moved to another one."""
        self.spec = spec
        self._actors = actors
        self._nodes = [_WatchedNode(node_id) for node_id in range(spec.partitions)]
        self._console_port = spec.console.port
        self._knows_console = False
        self._tasks = Tasks(_log)
        self._rebalance_ms = _rebalance_ms(Configs(spec.overrides))
        self._advice = LeadershipPlanner(
            range(spec.partitions), spec.placement(), spec.catalog_voters(), self._rebalance_ms
        )
        self._wake = asyncio.Event()
        self._is_at_home = asyncio.Event()
        self._told: set[str] = set()
        self._drained: set[int] = set()
        self._seen: Statuses = {}
        self._seen_ms = 0
        self.mover = Mover(self, hosts, self._tasks)
        self.drills = Drills(self, actors)

    async def start(self) -> None:
        """Start to watch."""
        self._tasks.spawn(self._learn_console())
        for node in self._nodes:
            self._tasks.spawn(self._watch(node))
        self._tasks.spawn(self._look())

    async def stop(self) -> None:
        """Stop watching; processes that end from now on are expected to."""
        await self.mover.close()
        self._tasks.cancel()

    async def settle(self) -> None:
        """Move leaderships to the preferred nodes before the cluster is READY; takes at most 5 s.

        Without this, the node that starts first may lead every partition.
        """
        if self._rebalance_ms is None:
            return
        self._advice.is_starting = True
        self._is_at_home.clear()
        self._wake.set()
        try:
            await asyncio.wait_for(self._is_at_home.wait(), SETTLE_S)
        except TimeoutError:
            _log.warning("not every partition has its preferred leader after %g s", SETTLE_S)
        finally:
            self._advice.is_starting = False

    def announce(self, node_id: int, pid: int) -> None:
        """Record that a coordinator is serving."""
        node = self._nodes[node_id]
        if pid != node.pid:
            node.starts += 1
            node.pid = pid
            self._advice.drain(node_id, False)
            if node.starts > 1:
                _log.warning("coordinator %d is back as process %d", node_id, pid)
            if node_id in self._drained:
                self._drained.discard(node_id)
                _log.info("the drain of coordinator %d has ended: it has restarted", node_id)
        node.is_up = True
        self._wake.set()

    def console_at(self, address: Address) -> None:
        """Record where the console listens."""
        self._knows_console = True
        self.spec = replace(self.spec, console=address)
        if why := console_moved(self._console_port, f"http://{address}"):
            _log.warning("%s", why)

    async def _learn_console(self) -> None:
        """Ask the console where it is: it was told to another controller, before this one."""
        while not self._knows_console:
            with suppress(*UNREACHED):
                address = await self._actors.ask(CONSOLE, "address")
                if address is not None and not self._knows_console:
                    self.console_at(address)
            await asyncio.sleep(LOOK_S)

    # --- watching

    async def _watch(self, node: _WatchedNode) -> None:
        """Keep a connection to the coordinator's listener, to notice at once when it ends."""
        failures, silent_from_ms = 0, boot_ms()
        while True:
            address = self.spec.places[node.node_id].internal
            try:
                async with asyncio.timeout(CONNECT_S):
                    reader, writer = await asyncio.open_connection(address.host, address.port)
            except OSError:
                if address != self.spec.places[node.node_id].internal:
                    continue  # it was moved meanwhile
                failures += 1
                is_known = node.pid or boot_ms() - silent_from_ms > PATIENCE_MS
                if failures > 1 and node.is_up and is_known:
                    self._went_down(node)
                await asyncio.sleep(min(RETRY_S * failures, RETRY_S_MAX))
                continue
            failures = 0
            _keep_alive(writer.get_extra_info("socket"))
            learning = self._tasks.spawn(self._learn_process(node))
            try:
                await reader.read(1)
            except OSError:
                pass
            finally:
                learning.cancel()
                writer.close()
                silent_from_ms = boot_ms()

    def _went_down(self, node: _WatchedNode) -> None:
        process = f"process {node.pid}" if node.pid else "not seen yet"
        _log.warning("coordinator %d (%s) is gone", node.node_id, process)
        node.is_up = False
        self._advice.down(node.node_id)
        self._wake.set()
        self._tasks.spawn(self._register_down(node))
        self._tasks.spawn(self._heal_if_damaged(node))

    async def _register_down(self, node: _WatchedNode) -> None:
        """Tell the catalogue's leader; a node that is up after all registers itself again."""
        row = self.spec.node(node.node_id, up=False)
        while not node.is_up:
            for other in self._nodes:
                if other.is_up and await self._tell(other.node_id, "node_changed", row):
                    return
            await asyncio.sleep(RETRY_S_MAX)

    async def _heal_if_damaged(self, node: _WatchedNode) -> None:
        """Ask a coordinator that is down whether its log is damaged: then it opens no listener.

        Reports are not asked of it, since they would wait for it while others fail over.
        """
        while not node.is_up:
            with suppress(*UNREACHED):
                status = await self._ask_status(node.node_id)
                if status["is_damaged"]:
                    await self._heal(node.node_id, await self.statuses())
            await asyncio.sleep(LOOK_S)

    async def _learn_process(self, node: _WatchedNode) -> None:
        """Ask a coordinator for its process id while it is not known to be up.

        It announced itself while we were away, or was cut off and does not announce itself again.
        Its first answers may be late: a connection of Ray's may take seconds to notice that the
        network is whole again.
        """
        while not node.is_up or not node.pid:
            with suppress(*UNREACHED):
                status = await self._ask_status(node.node_id)
                if status["state"] in SERVING:
                    self.announce(node.node_id, status["pid"])
                    return
            await asyncio.sleep(RETRY_S_MAX)

    async def _tell(self, node_id: int, method: str, *arguments: object) -> Any:
        """Call a coordinator; None if it was not reached."""
        try:
            return await self._actors.ask(coordinator_name(node_id), method, *arguments)
        except UNREACHED:
            return None

    # --- draining

    async def drain(self, node_id: int) -> list[MovedLeadership]:
        """Move all leaderships away from a node, until it restarts or the drain ends."""
        name = coordinator_name(node_id)
        self._advice.drain(node_id)
        self._drained.add(node_id)
        led = _led(await self._ask_status(node_id))
        _log.info("coordinator %d is being drained: it leads %d partitions", node_id, len(led))
        left = await self._actors.ask(name, "hand_over", wait_s=HAND_OVER_S)
        leaders = await self._leaders([one for one in led if one not in left])
        moved = [MovedLeadership(one, leaders.get(one)) for one in led]
        _log.info("%s", drain_message(node_id, {row.partition: row.leader for row in moved}))
        return moved

    async def _leaders(self, partitions: Sequence[int]) -> dict[int, int]:
        """Return the leaders of partitions, once all have one: they were only just handed over."""
        until_ms = boot_ms() + ELECTED_MS
        while True:
            statuses = await self.statuses()
            leaders = {one: node for node, status in statuses.items() for one in _led(status)}
            found = {one: leaders[one] for one in partitions if one in leaders}
            if len(found) == len(partitions) or boot_ms() > until_ms:
                return found
            await asyncio.sleep(ELECTED_LOOK_S)

    async def end_drain(self, node_id: int) -> None:
        """Allow a drained node to lead again."""
        self._advice.drain(node_id, False)
        await self._actors.ask(coordinator_name(node_id), "take_back")
        self._drained.discard(node_id)
        _log.info("the drain of coordinator %d has ended: it may lead again", node_id)

    # --- advice

    async def _look(self) -> None:
        """Pass reports to the pure controller and its orders to the coordinators, forever."""
        began_ms = boot_ms()
        while True:
            self._wake.clear()
            statuses = await self._ask_all("status", REPORT_S)
            now = boot_ms()
            self._seen, self._seen_ms = statuses, now
            for node_id, status in statuses.items():
                rows = [partition_status(row) for row in status["partitions"]]
                self._advice.report(node_id, rows, now)
                if status["is_damaged"]:
                    await self._heal(node_id, statuses)
            await self.mover.look(statuses, now)
            if now - began_ms > PATIENCE_MS:
                self.mover.learn_homes()
                self.mover.restore_absent(statuses)
            said = {*problems(self.spec, statuses), *self.mover.problems}
            for problem in said - self._told:
                _log.critical("%s", problem)
            self._told |= said
            if len(statuses) == len(self._nodes) or now - began_ms > PATIENCE_MS:
                await self._give(self._advice.orders(now))
            if len(statuses) == len(self._nodes) and self._advice.is_at_home():
                self._is_at_home.set()
            wait_s = LOOK_S if self._is_well(statuses) else LOOK_MS / 1000
            if self._advice.is_starting:
                wait_s = SETTLE_LOOK_S
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), wait_s)

    def _is_well(self, statuses: Mapping[int, Mapping[str, Any]]) -> bool:
        """Whether all coordinators answer and every partition has a leader."""
        return len(statuses) == len(self._nodes) and all(
            _nodes_leading(statuses, number)
            for kind in PLACED
            for number in kind.numbers(self.spec.partitions)
        )

    async def _give(self, orders: Sequence[Order]) -> None:
        for line in order_messages(orders):
            _log.info("%s", line)
        for order in orders:
            match order:
                case Campaign(node_id, partition):
                    await self._tell(node_id, "campaign", partition)
                case LeadershipTransfer(node_id, partition, to):
                    await self._tell(node_id, "transfer", partition, to)

    async def _heal(self, node_id: int, statuses: Mapping[int, Mapping[str, Any]]) -> None:
        """Let a node with a damaged log start empty, if the others have all its records."""
        if may_set_aside(node_id, self.spec.placement(), reports_of(statuses)):
            _log.warning("coordinator %d has a damaged log and starts with an empty one", node_id)
            await self._tell(node_id, "start_empty")

    # --- what the mover and drills need

    async def statuses(self) -> dict[int, dict[str, Any]]:
        """Return the status of every coordinator that answers."""
        return await self._ask_all("status", STATUS_S)

    def processes(self) -> list[int]:
        """Return the process of each coordinator; 0: it is not up."""
        return [node.pid if node.is_up else 0 for node in self._nodes]

    def keep_from_leading(self, node_id: int, is_kept: bool = True) -> None:
        """Transfer leaderships away from a coordinator, by advice alone; or let it lead again."""
        self._advice.drain(node_id, is_kept)

    def look_soon(self) -> None:
        """Look at the coordinators at once, and give orders."""
        self._wake.set()

    # --- for operators

    async def status(self) -> dict[str, Any]:
        """Return the cluster as ``rollcall status --json`` shows it."""
        return await self._shown(self.statuses(), self._ask_all("metrics", STATUS_S))

    async def overview(self) -> dict[str, Any]:
        """Return the same without metrics, and as it was at the last look if all answered that.

        So it costs coordinators nothing.
        """
        return await self._shown(self._last_statuses(), _nothing())

    async def _last_statuses(self) -> Statuses:
        is_new = boot_ms() - self._seen_ms <= SEEN_MS
        is_whole = self._seen.keys() == set(self._answering())
        return self._seen if is_new and is_whole else await self.statuses()

    async def _shown(
        self, statuses: Awaitable[Statuses], metrics: Awaitable[Statuses]
    ) -> dict[str, Any]:
        workers = (self._worker(number) for number in range(self.spec.workers))
        by_node, measured, rows = await asyncio.gather(statuses, metrics, asyncio.gather(*workers))
        found = {
            node_id: {**status, "metrics": measured.get(node_id, {})}
            for node_id, status in by_node.items()
        }
        status = cluster_status(self.spec, [node.pid for node in self._nodes], found, rows)
        overview = await self.mover.overview(by_node)
        return {**status, "controller": {"pid": os.getpid()}, **overview}

    def _answering(self) -> list[int]:
        """Return the coordinators that are up, or were never seen: those may be damaged."""
        return [node.node_id for node in self._nodes if node.is_up or not node.pid]

    async def _ask_all(self, method: str, wait_s: float) -> dict[int, dict[str, Any]]:
        """Call a method of every coordinator that may answer."""
        asked = self._answering()
        calls = (
            self._actors.ask(coordinator_name(node_id), method, wait_s=wait_s) for node_id in asked
        )
        answers = await asyncio.gather(*calls, return_exceptions=True)
        return {
            node_id: answer
            for node_id, answer in zip(asked, answers, strict=True)
            if isinstance(answer, dict)
        }

    async def _worker(self, number: int) -> dict[str, Any]:
        try:
            row = await self._actors.ask(assignor_name(number), "stats", wait_s=STATUS_S)
        except UNREACHED:
            return {"pid": None, "state": "Restarting", "runs": 0, "waiting": 0}
        return dict(row)

    async def _ask_status(self, node_id: int, wait_s: float = STATUS_S) -> dict[str, Any]:
        status: dict[str, Any] = await self._actors.ask(
            coordinator_name(node_id), "status", wait_s=wait_s
        )
        return status


async def _nothing() -> Statuses:
    return {}


def _keep_alive(connection: socket.socket) -> None:
    """Let the kernel end a silent connection when its other end's host no longer answers."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEP_ALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _rebalance_ms(configs: Configs) -> int | None:
    """Return how long all must be healthy before leaders are rebalanced; None: never."""
    if not configs.boolean("auto.leader.rebalance.enable"):
        return None
    return 1_000 * configs.integer("leader.imbalance.check.interval.seconds")


def _led(status: Mapping[str, Any]) -> list[int]:
    return [row["partition"] for row in status["partitions"] if row["state"] == LEADER]


def _nodes_leading(statuses: Mapping[int, Mapping[str, Any]], partition: int) -> list[int]:
    return [node_id for node_id, status in statuses.items() if partition in _led(status)]
