"""A client's connection to one life of one node: carries requests, answers, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kio.static.protocol import Entity

    from failover.simulation.nodes.network import Network
    from failover.simulation.nodes.process import Process
    from failover.simulation.world import World


class ClientEnd(Protocol):
    """The user of a connection. ``token`` is the one that it passed with its request."""

    def answered(self, token: Any, response: Entity) -> None:
        """Take an answer."""

    def disconnected(self, connection: SimulatedConnection) -> None:
        """Note that nothing more will arrive on this connection."""


class SimulatedConnection:
    """One connection, with at most one request in flight.

    ``awaiting`` is the client's token of that request, ``tickets`` the node's tickets for it. It
    ends with the life of the node's process; whether the client hears of it at once, late or never
    depends on how the process ended.
    """

    __slots__ = (
        "_network",
        "_world",
        "awaiting",
        "client",
        "is_open",
        "life",
        "process",
        "tickets",
    )

    def __init__(self, world: World, network: Network, client: ClientEnd, process: Process) -> None:
        self._world = world
        self._network = network
        self.client = client
        self.process = process
        self.life = process.life
        self.is_open = True
        self.awaiting: Any = None
        self.tickets: list[int] = []

    def send(self, token: Any, message: Entity) -> None:
        """Send a request; its answer arrives with ``token``, or not at all."""
        self.awaiting = token
        self._world.after(self._network.client_delay(), self._arrive, token, message)

    def _arrive(self, token: Any, message: Entity) -> None:
        process = self.process
        if not self.is_open or process.node_id in self._network.cut_from_clients:
            return
        if process.life != self.life or not process.is_alive:
            self._world.after(self._network.client_delay(), self.close)  # refused
            return
        process.from_client(self, token, message)

    def answer(self, token: Any, response: Entity) -> None:
        """Send an answer back."""
        self._world.after(self._network.client_delay(), self._answered, token, response)

    def _answered(self, token: Any, response: Entity) -> None:
        if self.is_open and self.process.node_id not in self._network.cut_from_clients:
            self.awaiting = None
            self.client.answered(token, response)

    def close(self) -> None:
        """Close it, from either side."""
        if self.is_open:
            self.is_open = False
            self.client.disconnected(self)

    def abandon(self) -> None:
        """Close it from the client's side: the node hears of that some time later."""
        if self.is_open:
            self.is_open = False
            self._world.after(self._network.client_delay(), self._abandoned)

    def _abandoned(self) -> None:
        if self.process.life == self.life:
            self.process.abandoned(self)
