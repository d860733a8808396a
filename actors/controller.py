"""The controller: watches the others, tells them who leads what, shows people the whole.

It is never needed for safety: while it is away, coordinators go on serving, and Ray restarts what
dies. A plain class; ``actors/cluster.py`` makes it a Ray actor.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.console.page import Console
from actors.ray_peers import UNREACHED, assignor_name, coordinator_name

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from actors.spec import ClusterSpec
    from failover.cluster_view import Node

_log = logging.getLogger("rollcall.controller")

RETRY_S: Final = 0.05
RETRY_S_MAX: Final = 0.5
STATUS_S: Final = 2.0


class Cluster(Protocol):
    """What the controller asks of the actors around it."""

    async def ask(self, name: str, method: str, *arguments: object, wait_s: float = ...) -> Any:
        """Call a method of a named actor; raises one of ``UNREACHED``."""

    async def register(self, node: Node) -> bool:
        """Tell the catalogue's leader that a node is up or down."""


@dataclass(slots=True)
class _Watched:
    """One coordinator; written by its watch and by :meth:`Controller.announce`."""

    node_id: int
    is_up: bool = True
    pid: int = 0
    starts: int = 0


class Controller:
    """Watches one cluster."""

    def __init__(self, spec: ClusterSpec, cluster: Cluster) -> None:
        self.spec = spec
        self._cluster = cluster
        self._nodes = [_Watched(node_id) for node_id in range(spec.partitions)]
        self._console = Console(self.status)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to watch; the console answers from now on."""
        await self._console.open(self.spec.console.host, self.spec.console.port)
        for node in self._nodes:
            self._spawn(self._watch(node))

    async def stop(self) -> None:
        """End watching: what dies from now on is meant to."""
        for task in self._tasks:
            task.cancel()
        self._console.close()

    def leaders(self) -> dict[int, int]:
        """Return who leads each partition; those of nodes that are down are left out."""
        return {node.node_id: node.node_id for node in self._nodes if node.is_up}

    def announce(self, node_id: int, pid: int) -> Mapping[int, int]:
        """Take a coordinator's word that it serves; answer who leads what."""
        node = self._nodes[node_id]
        if pid != node.pid:
            node.starts += 1
            if node.starts > 1:
                _log.warning("coordinator %d is back as process %d", node_id, pid)
                node.pid = pid
        if not node.is_up:
            node.is_up = True
            self._spawn(self._tell_leaders())
        return self.leaders()

    # --- watching

    async def _watch(self, node: _Watched) -> None:
        """Hold a connection to the coordinator's listener: its end is noticed at once."""
        address = self.spec.listeners[node.node_id]
        failures = 0
        while True:
            try:
                reader, writer = await asyncio.open_connection(address.host, address.port)
            except OSError:
                failures += 1
                if failures > 1 and node.is_up and node.pid:
                    await self._went_down(node)
                await asyncio.sleep(min(RETRY_S * failures, RETRY_S_MAX))
                continue
            failures = 0
            if not node.is_up or not node.pid:
                self._spawn(self._greet(node))
            try:
                await reader.read(1)
            except OSError:
                pass
            finally:
                writer.close()

    async def _went_down(self, node: _Watched) -> None:
        _log.warning("coordinator %d (process %d) is gone", node.node_id, node.pid)
        node.is_up = False
        self._spawn(self._tell_leaders())
        self._spawn(self._register_down(node))

    async def _register_down(self, node: _Watched) -> None:
        while not node.is_up:
            if await self._cluster.register(self.spec.node(node.node_id, up=False)):
                break
            await asyncio.sleep(RETRY_S_MAX)
        if node.is_up:  # came back meanwhile: its own word must be the last
            await self._cluster.register(self.spec.node(node.node_id, up=True))

    async def _greet(self, node: _Watched) -> None:
        """Learn who listens there, when it did not tell us itself (we were away)."""
        try:
            status = await self._ask_status(node.node_id)
        except UNREACHED:
            return
        if status["state"] == "Running":
            self.announce(node.node_id, status["pid"])

    async def _tell_leaders(self) -> None:
        leaders = self.leaders()
        calls = (
            self._cluster.ask(coordinator_name(node_id), "set_leaders", leaders)
            for node_id in leaders
        )
        await asyncio.gather(*calls, return_exceptions=True)

    # --- for people

    async def status(self) -> dict[str, Any]:
        """Return the cluster as ``rollcall status --json`` shows it."""
        coordinators, workers = await asyncio.gather(
            asyncio.gather(*(self._coordinator(node) for node in self._nodes)),
            asyncio.gather(*(self._worker(number) for number in range(self.spec.workers))),
        )
        return {
            "cluster_id": self.spec.cluster_id,
            "bootstrap": self.spec.bootstrap,
            "console": f"http://{self.spec.console}",
            "data_dir": self.spec.data_dir,
            "coordinators": [row for row, _ in coordinators],
            "workers": list(workers),
            "partitions": [row for _, rows in coordinators for row in rows],
        }

    async def _coordinator(self, node: _Watched) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        address = self.spec.listeners[node.node_id]
        row: dict[str, Any] = {
            "node_id": node.node_id,
            "pid": node.pid or None,
            "host": address.host,
            "port": address.port,
            "leads": [],
            "stands_by": [],
            "state": "Starting" if not node.pid else "Restarting",
        }
        partition: dict[str, Any] = {
            "partition": node.node_id,
            "leader": None,
            "epoch": None,
            "in_sync": [],
        }
        try:
            status = await self._ask_status(node.node_id)
        except UNREACHED:
            return row, [partition]
        row |= {name: status[name] for name in ("pid", "state", "connections")}
        if status["failure"]:
            row["failure"] = status["failure"]
        for held in status["partitions"]:
            if held["partition"] < 0 or held["state"] != "Leader":
                continue
            row["leads"].append(held["partition"])
            partition |= {"leader": node.node_id, "in_sync": [node.node_id]}
            partition |= {name: held[name] for name in ("epoch", "high_watermark")}
        return row, [partition]

    async def _worker(self, number: int) -> dict[str, Any]:
        try:
            pid = await self._cluster.ask(assignor_name(number), "pid", wait_s=STATUS_S)
        except UNREACHED:
            return {"pid": None, "state": "Restarting"}
        return {"pid": pid, "state": "Idle"}

    async def _ask_status(self, node_id: int) -> dict[str, Any]:
        status: dict[str, Any] = await self._cluster.ask(
            coordinator_name(node_id), "status", wait_s=STATUS_S
        )
        return status

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        if task in self._tasks:
            self._tasks.remove(task)
        if not task.cancelled() and (error := task.exception()):
            _log.error("a background task failed", exc_info=error)
