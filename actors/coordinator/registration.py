"""Tells the controller and the catalogue that a coordinator serves, and where clients find it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, Protocol

from actors.coordinator.pump import Forwarding

if TYPE_CHECKING:
    from collections.abc import Callable

    from failover.catalogue.cluster_view import ClusterView, Node
    from failover.host import Host

RETRY_S: Final = 0.2


class ControlPlane(Forwarding, Protocol):
    """The other processes of the cluster, for the control path; replicas have their own links."""

    async def node_changed(self, leader: int, node: Node) -> bool:
        """Tell ``leader`` that a node is up or down; False when it does not lead the catalogue."""

    async def directories(self) -> tuple[str, ...]:
        """Ask the others which directories the cluster was formed of; nothing: none knows."""

    async def peer_address(self, node_id: int) -> tuple[str, int] | None:
        """Ask a coordinator where it listens for its peers; None when it was not reached."""

    async def announce_peer_address(self, node_id: int, host: str, port: int) -> None:
        """Tell the others that they find this node's replicas there."""

    async def announce(self, node_id: int, pid: int) -> bool:
        """Tell the controller that we serve; False when it was not reached."""


class Registration:
    """Keeps one node registered; ``node`` is what the catalogue should say of it.

    ``host`` returns the host while there is one; ``change`` tells a catalogue that is led here.
    """

    def __init__(
        self,
        node: Node,
        control_plane: ControlPlane,
        host: Callable[[], Host | None],
        change: Callable[[Node], object],
    ) -> None:
        self._node = node
        self._control_plane = control_plane
        self._host = host
        self._change = change
        self._is_under_way = False

    async def announce(self) -> None:
        """Tell the controller that the node serves, until it was reached."""
        while not await self._control_plane.announce(self._node.node_id, os.getpid()):
            await asyncio.sleep(RETRY_S)

    @property
    def is_missing(self) -> bool:
        """Whether the catalogue does not show the node, and nothing is done about it yet."""
        host = self._host()
        return not self._is_under_way and host is not None and not self._is_shown(host)

    async def register(self) -> None:
        """Tell the catalogue where clients find the node, until it shows that."""
        self._is_under_way = True
        while (host := self._host()) is not None and not self._is_shown(host):
            leader = host.view.controller_id
            if leader == self._node.node_id:
                self._change(self._node)
            elif leader >= 0:
                await self._control_plane.node_changed(leader, self._node)
            await asyncio.sleep(RETRY_S)
        self._is_under_way = False

    def _is_shown(self, host: Host) -> bool:
        return host.view.catalog.nodes.get(self._node.node_id) == self._node


def has_every_leader(view: ClusterView, partitions: int) -> bool:
    """Whether a client that asks this node finds it, and the leader of every partition."""
    nodes, leaders = view.catalog.nodes, view.leaders
    return len(leaders) == partitions and all(
        (node := nodes.get(leader)) is not None and node.up
        for leader in (view.node_id, *leaders.values())
    )
