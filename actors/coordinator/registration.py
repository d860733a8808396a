"""Registers a coordinator and its address with the controller and the catalogue."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, Protocol

from actors.coordinator.pump import Forwarding
from failover.catalogue.levels import NOT_TOLD
from failover.partition_kinds import GROUPS, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from failover.catalogue.cluster_view import ClusterView, Node
    from failover.host import Host

RETRY_S: Final = 0.2


class ControlPlane(Forwarding, Protocol):
    """Calls to the cluster's other processes; replicas have their own links.

    The links are authenticated with ``secret``, which is the cluster's.
    """

    secret: bytes

    async def node_changed(self, leader: int, node: Node) -> bool:
        """Tell ``leader`` that a node is up or down; False if it does not lead the catalogue."""

    async def directories(self) -> tuple[str, ...]:
        """Ask the other nodes which directories the cluster was formed from; empty: none knows."""

    async def peer_address(self, node_id: int) -> tuple[str, int] | None:
        """Ask a coordinator for the address of its peer listener; None if it was not reached."""

    async def announce_peer_address(self, node_id: int, host: str, port: int) -> None:
        """Tell the other nodes the address of this node's peer listener."""

    async def announce(self, node_id: int, pid: int) -> bool:
        """Tell the controller that this node is serving; False if it was not reached."""


class Registration:
    """Keeps one node registered; ``node`` is its entry in the catalogue.

    ``host`` returns the host while there is one; ``change`` changes a catalogue led by this node.
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
        """Announce the node to the controller; retry until it was reached."""
        while not await self._control_plane.announce(self._node.node_id, os.getpid()):
            await asyncio.sleep(RETRY_S)

    @property
    def is_missing(self) -> bool:
        """Whether the catalogue lacks the node's entry and no registration is in progress."""
        host = self._host()
        return not self._is_under_way and host is not None and not self._is_shown(host)

    async def register(self) -> None:
        """Register the node's address in the catalogue; retry until it is there."""
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
        nodes = host.view.catalog.nodes
        shown, leader = nodes.get(self._node.node_id), nodes.get(host.view.controller_id)
        if leader is not None and leader.node_id != self._node.node_id and not leader.tells_levels:
            # An older version leads the catalogue, and writes no levels.
            return shown in (self._node, self._node.with_levels(NOT_TOLD))
        return shown == self._node


def has_every_leader(view: ClusterView, partitions: int) -> bool:
    """Whether this node's view has a running leader for every groups' partition, and this node.

    Share state may come later: while nodes of a version without it are left, it has no leaders.
    """
    nodes = view.catalog.nodes
    leaders = [one for number, one in view.leaders.items() if kind_of(number) is GROUPS]
    return len(leaders) == partitions and all(
        (node := nodes.get(leader)) is not None and node.up for leader in (view.node_id, *leaders)
    )
