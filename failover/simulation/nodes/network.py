"""The links between nodes, and between clients and nodes: seeded, with configurable faults.

A link between two nodes is one connection: it has an incarnation, which ends when either process
ends, when it is reset, or when a cut lasts too long. Messages in transit are lost then. While it
lasts, messages are late, lost, repeated or reordered according to the settings. They travel as the
bytes that a live link carries (:mod:`storage.peer_packing`): one turn's frames are late or lost
together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from storage.peer_frames import unpack_messages
from storage.peer_packing import (
    BODY_BYTES_MAX,
    FRAME_BYTES_MAX,
    FrameReader,
    bodies,
    framed,
    without_payload,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from failover.simulation.nodes.process import Process
    from failover.simulation.world import World
    from storage.messages import Message


@dataclass(slots=True)
class SimulatedLink:
    """A connection between two nodes; ``last`` is the latest arrival in each direction."""

    is_up: bool = False
    incarnation: int = 0
    last: tuple[int, int] = (0, 0)


class Network:
    """Which nodes reach each other. ``cut`` holds (sender, receiver) pairs without connection.

    ``slow`` holds pairs whose receiver reads too slowly: then no messages with records are sent.
    """

    RECONNECT_MS = 50
    NOTICE_LATE_MS = 24_000

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.random("network")
        self._links: dict[tuple[int, int], SimulatedLink] = {}
        self.processes: dict[int, Process] = {}
        self.cut: set[tuple[int, int]] = set()
        self.cut_from_clients: set[int] = set()
        self.slow: set[tuple[int, int]] = set()

    def add(self, process: Process) -> None:
        """Add a process; its links come up as soon as both ends run."""
        for other in self.processes:
            self._links[other, process.node_id] = SimulatedLink()
        self.processes[process.node_id] = process

    # --- between nodes

    def send(self, sender: Process, node_id: int, messages: Sequence[Message]) -> None:
        """Send one turn's messages; they may be lost, late, repeated or reordered."""
        link = self._link(sender.node_id, node_id)
        if (sender.node_id, node_id) in self.slow:
            messages = without_payload(messages)
        if not link.is_up or not messages:
            return
        frames = b"".join(map(framed, bodies(messages)))
        settings, rng = self._world.settings, self._rng
        low, high = settings.delay_ms
        delay_ms = low + int(rng.random() * (high - low + 1))
        if self._world.faulty:
            if settings.loss and rng.random() < settings.loss:
                self._world.injected["message lost"] += 1
                return
            if settings.duplication and rng.random() < settings.duplication:
                self._world.injected["message repeated"] += 1
                self._arrive_after(
                    delay_ms + 1 + int(rng.random() * 1_500), sender, node_id, frames
                )
            if settings.reordering and rng.random() < settings.reordering:
                self._world.injected["message overtaken"] += 1
                delay_ms += int(rng.random() * 12_000)
                self._arrive_after(delay_ms, sender, node_id, frames)
                return
        side = sender.node_id > node_id
        arrival = max(self._world.now + delay_ms, link.last[side])
        link.last = (link.last[0], arrival) if side else (arrival, link.last[1])
        self._arrive_after(arrival - self._world.now, sender, node_id, frames)

    def _arrive_after(self, delay_ms: int, sender: Process, node_id: int, frames: bytes) -> None:
        incarnation = self._link(sender.node_id, node_id).incarnation
        self._world.after(delay_ms, self._arrive, sender.node_id, node_id, incarnation, frames)

    def _arrive(self, sender: int, node_id: int, incarnation: int, frames: bytes) -> None:
        link = self._link(sender, node_id)
        if not link.is_up or link.incarnation != incarnation or (sender, node_id) in self.cut:
            return
        for body in FrameReader(FRAME_BYTES_MAX, BODY_BYTES_MAX).feed(frames):
            self.processes[node_id].from_peer(sender, unpack_messages(body))

    def _link(self, one: int, other: int) -> SimulatedLink:
        return self._links[(one, other) if one < other else (other, one)]

    def _is_cut(self, one: int, other: int) -> bool:
        return (one, other) in self.cut or (other, one) in self.cut

    def connect(self, node_id: int) -> None:
        """Bring up the links of a process that has started, or whose cut is over."""
        for other, process in self.processes.items():
            if other != node_id and process.is_alive:
                delay_ms = 1 + int(self._rng.random() * self.RECONNECT_MS)
                self._world.after(delay_ms, self._connect, node_id, other)

    def _connect(self, one: int, other: int) -> None:
        link = self._link(one, other)
        ends = self.processes[one], self.processes[other]
        if link.is_up or self._is_cut(one, other) or not all(end.is_alive for end in ends):
            return
        if not (ends[0].judges(ends[1]) and ends[1].judges(ends[0])):
            return
        link.is_up = True
        link.incarnation += 1
        link.last = (0, 0)
        ends[0].link_changed(other, True)
        ends[1].link_changed(one, True)
        ends[0].accepted(other)
        ends[1].accepted(one)

    def disconnect(self, node_id: int, notice_ms: int) -> None:
        """End the links of a process that has died; the others notice after a delay."""
        for other in self.processes:
            if other != node_id:
                self._disconnect(node_id, other, notice_ms)

    def reset(self, one: int, other: int) -> None:
        """Break a link; both sides see it at once and connect again."""
        self._disconnect(one, other, 0)
        self._world.after(1 + int(self._rng.random() * 1_000), self._connect, one, other)

    def _disconnect(self, one: int, other: int, notice_ms: int) -> None:
        link = self._link(one, other)
        if not link.is_up:
            return
        link.is_up = False
        for end, peer in ((one, other), (other, one)):
            self._world.after(notice_ms, self._notice, end, peer, link.incarnation)

    def _notice(self, node_id: int, peer: int, incarnation: int) -> None:
        link = self._link(node_id, peer)
        if link.incarnation == incarnation and not link.is_up:
            self.processes[node_id].link_changed(peer, False)

    def sever(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Cut the (sender, receiver) pairs; the ends may notice it late."""
        self.cut.update(pairs)
        for one, other in pairs:
            chance = self._rng.random()
            if chance < 0.7:
                late_ms = self.NOTICE_LATE_MS if chance < 0.35 else 100
                wait_ms = int(self._rng.random() * late_ms)
                self._world.after(wait_ms, self._give_up, one, other)

    def _give_up(self, one: int, other: int) -> None:
        if self._is_cut(one, other):
            self._disconnect(one, other, 0)

    def mend(self, pairs: Sequence[tuple[int, int]]) -> None:
        """End a cut."""
        self.cut.difference_update(pairs)
        for one, other in pairs:
            self._world.after(1 + int(self._rng.random() * 1_000), self._connect, one, other)

    # --- between clients and nodes

    def client_delay(self) -> int:
        """Return a random delay for one message between a client and a node."""
        low, high = self._world.settings.client_delay_ms
        return low + int(self._rng.random() * (high - low + 1))
