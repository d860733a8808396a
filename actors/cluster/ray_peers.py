"""Calls between actors over Ray, for the control path only."""

from __future__ import annotations

import asyncio
import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actors.cluster.forwarding import ForwardQueue
from actors.cluster.ray_calls import CallError, named, own_node_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kio.static.protocol import Entity

    from actors.cluster.actor_process import ActorHandle
    from actors.cluster.forwarding import Answers
    from failover.catalogue.cluster_view import Node
    from protocol.groups.effects import Request

_log = logging.getLogger("rollcall.peers")

CONTROLLER: Final = "controller"
CONSOLE: Final = "console"
CALL_S: Final = 5.0
FORWARD_S: Final = 30.0

COLOURS: Final = re.compile("\x1b\\[[0-9;]*m")
TRACEBACK: Final = re.compile(r'File ".*", line \d+')
EXCEPTION: Final = re.compile(r"[\w.]+")

UNREACHED: Final = (CallError, TimeoutError, ValueError)
"""What a call raises if the actor is dead, restarting or does not exist (yet)."""


def coordinator_name(node_id: int) -> str:
    """Return the name of a coordinator's actor."""
    return f"coordinator-{node_id}"


def assignor_name(number: int) -> str:
    """Return the name of an assignor worker's actor."""
    return f"assignor-{number}"


class Actors:
    """Finds actors by name without blocking the event loop, and caches their handles.

    A handle stays valid when its actor restarts, but not when it is created again on another host.
    """

    def __init__(self) -> None:
        self._found: dict[str, ActorHandle] = {}

    async def ask(
        self, name: str, method: str, *arguments: object, wait_s: float | None = CALL_S
    ) -> Any:
        """Call a method of an actor and return its result; raises one of :data:`UNREACHED`."""
        async with asyncio.timeout(wait_s):
            call = await self._method(name, method)
            try:
                return await call(*arguments)
            except CallError:
                self._found.pop(name, None)
                raise

    async def tell(self, name: str, method: str, *arguments: object) -> None:
        """Call a method of an actor without waiting for its result."""
        call = await self._method(name, method)
        call(*arguments)

    async def _method(self, name: str, method: str) -> Callable[..., Any]:
        found = getattr(await self._find(name), method, None)
        if found is None:
            raise ValueError(f"{name} has no {method}: it is of another version")
        call: Callable[..., Any] = found.remote
        return call

    async def _find(self, name: str) -> ActorHandle:
        handle = self._found.get(name)
        if handle is None:
            loop = asyncio.get_running_loop()
            handle = await loop.run_in_executor(None, named, name)
            self._found[name] = handle
        return handle


class RayWorkers:
    """The assignor workers as a coordinator sees them (``workers/dispatcher.py``)."""

    def __init__(self) -> None:
        self.here = own_node_id()
        self._actors = Actors()

    async def ask(self, worker: int, method: str, *arguments: object, wait_s: float | None) -> Any:
        """Call a method of a worker; raises one of :data:`UNREACHED`."""
        return await self._actors.ask(assignor_name(worker), method, *arguments, wait_s=wait_s)

    async def tell(self, worker: int, method: str, *arguments: object) -> None:
        """Call a method of a worker without waiting for its result; calls may be reordered."""
        await self._actors.tell(assignor_name(worker), method, *arguments)


class RayPeers:
    """The other processes as a coordinator sees them (``ControlPlane`` in its module)."""

    def __init__(self, node_id: int, nodes: int, secret: bytes) -> None:
        self.secret = secret
        self._others = [number for number in range(nodes) if number != node_id]
        self._actors = Actors()
        self._forwards: dict[int, ForwardQueue] = {}

    async def forward(self, node_id: int, request: Request) -> Entity | None:
        """Forward a request to another node; return None if it was not reached."""
        queue = self._forwards.get(node_id)
        if queue is None:
            queue = self._forwards[node_id] = ForwardQueue(partial(self._carry, node_id))
        return await queue.ask(request)

    async def _carry(self, node_id: int, requests: Sequence[Request]) -> Answers | None:
        try:
            answers: Answers = await self._actors.ask(
                coordinator_name(node_id), "forwarded_here", requests, wait_s=FORWARD_S
            )
        except UNREACHED as error:
            _log.warning("could not reach node %d: %s", node_id, first_line(error))
            return None
        return answers

    async def node_changed(self, leader: int, node: Node) -> bool:
        """Tell ``leader`` that a node is up or down; False if it does not lead the catalogue."""
        try:
            taken: bool = await self._actors.ask(coordinator_name(leader), "node_changed", node)
        except UNREACHED:
            return False
        return taken

    async def directories(self) -> tuple[str, ...]:
        """Ask the other nodes which directories the cluster was formed from; empty: none knows."""
        calls = (self._actors.ask(coordinator_name(other), "directories") for other in self._others)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        return next((found for found in answers if isinstance(found, tuple) and found), ())

    async def peer_address(self, node_id: int) -> tuple[str, int] | None:
        """Ask a coordinator for the address of its peer listener; None if it was not reached."""
        try:
            found: tuple[str, int] | None = await self._actors.ask(
                coordinator_name(node_id), "peer_address"
            )
        except UNREACHED:
            return None
        return found

    async def announce_peer_address(self, node_id: int, host: str, port: int) -> None:
        """Tell the other nodes the address of this node's peer listener."""
        calls = (
            self._actors.ask(coordinator_name(other), "peer_moved", node_id, host, port)
            for other in self._others
        )
        await asyncio.gather(*calls, return_exceptions=True)

    async def announce(self, node_id: int, pid: int) -> bool:
        """Tell the controller that this node is serving; False if it was not reached."""
        try:
            await self._actors.ask(CONTROLLER, "announce", node_id, pid)
        except UNREACHED:
            return False
        return True


def first_line(error: BaseException) -> str:
    """Return the first line of an error, without the traceback that Ray appends."""
    lines = _lines(error)
    return lines[0] if lines else type(error).__name__


def cause(error: BaseException) -> str:
    """Return in one sentence what ended a call or an actor: the last line of a traceback."""
    lines = _lines(error)
    if any(TRACEBACK.match(line) for line in lines):
        line = lines[-1]
        name, _, said = line.partition(": ")
        return said if said and EXCEPTION.fullmatch(name) else line
    return first_line(error)


def _lines(error: BaseException) -> list[str]:
    text = COLOURS.sub("", str(error))
    return [line.strip() for line in text.splitlines() if line.strip()]
