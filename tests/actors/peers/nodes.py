"""Nodes in one process that are linked over real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import uvloop

from actors.peers.handshake import LocalNode
from actors.peers.peers import Peers
from actors.peers.tls import TlsSettings
from storage.disk.incarnation import Incarnation, SeenIncarnations
from storage.messages import Leading, Message
from tests.waiting import WITHIN_S, patient, until_async

HOST = "127.0.0.1"
SECRET = b"s" * 32


@dataclass
class Node:
    """One coordinator's links and what they told it."""

    me: LocalNode
    peers: Peers = field(init=False)
    port: int = 0
    said: list[tuple[int, Message]] = field(default_factory=list)
    story: list[tuple[str, int]] = field(default_factory=list)
    memory: SeenIncarnations = field(default_factory=SeenIncarnations)

    def vouch(self, claim: Incarnation) -> bool:
        return self.memory.judge(claim) and (self.memory.learn(claim) or True)

    def receive_peer(self, node_id: int, messages: Sequence[Message]) -> None:
        self.said += [(node_id, message) for message in messages]

    def peer_up(self, node_id: int) -> None:
        self.story.append(("up", node_id))

    def peer_down(self, node_id: int) -> None:
        self.story.append(("down", node_id))

    def found_stale(self, node_id: int) -> None:
        self.story.append(("stale", node_id))


class Some:
    """Some nodes in this process; each asks here where the others are."""

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.nodes: list[Node] = []

    async def add(
        self, me: LocalNode, patience_ms: int = 0, tls: TlsSettings | None = None
    ) -> Node:
        async def address_of(node_id: int) -> tuple[str, int] | None:
            port = self.ports.get(node_id)
            return None if port is None else (HOST, port)

        node = Node(me)
        node.peers = Peers(
            me, range(3), node, address_of, vouch=node.vouch, patience_ms=patience_ms
        )
        await node.peers.open(HOST, tls=tls)
        node.port = node.peers.port
        self.ports[me.node_id] = node.port
        self.nodes.append(node)
        return node


@contextlib.asynccontextmanager
async def some() -> AsyncIterator[Some]:
    made = Some()
    try:
        yield made
    finally:
        for node in made.nodes:
            node.peers.close()


def me(node_id: int, **changes: Any) -> LocalNode:
    usual = LocalNode(
        cluster_id="cluster", node_id=node_id, directory_id=f"directory-{node_id}", secret=SECRET
    )
    return replace(usual, **changes)


def run(test: Callable[[], Awaitable[None]]) -> None:
    uvloop.run(asyncio.wait_for(test(), patient(60)))


async def seen(condition: Callable[[], object], what: str) -> None:
    async def ask() -> object:
        return condition()

    await until_async(ask, WITHIN_S, what)


async def linked(*nodes: Node) -> None:
    def all_of_them() -> bool:
        return all(len(node.peers.linked) == len(nodes) - 1 for node in nodes)

    await seen(all_of_them, "every node is linked to every other")


@contextlib.asynccontextmanager
async def pair() -> AsyncIterator[list[Node]]:
    """Two nodes, 0 and 1, that are linked."""
    async with some() as made:
        nodes = [await made.add(me(number)) for number in (0, 1)]
        await linked(*nodes)
        yield nodes


def leading(epoch: int) -> Leading:
    return Leading(0, epoch, 0)
