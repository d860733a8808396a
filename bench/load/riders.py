"""Static members that heartbeat through the loss of their coordinator, as light as they can be.

What a real client does, and no more: a connection to the coordinator and a heartbeat every few
seconds; when the connection breaks, ask any other node who coordinates, connect there, heartbeat
at once; wait a little longer after each failure in a row (KIP-580's back-off). All that is the
member kernel's; here are its connections and its timers. Ten thousand members must not be what is
measured, so they write frames. Questions to find a coordinator go over a few shared connections
(:mod:`bench.client.lanes`).
"""

from __future__ import annotations

import heapq
import random
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from bench.client.lanes import Lanes
from bench.load.joining import now_ms
from protocol.client.connection import ClientConnection
from protocol.client.frames import CLIENT_ID, by_frame
from protocol.client.versions import newest
from protocol.members.client import BrokerNode
from protocol.members.frames import read_answer
from protocol.members.requests import FIND_COORDINATOR, HEARTBEAT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.client.lanes import Address
    from bench.client.reactor import Channel, Reactor
    from bench.load.joining import Joining
    from protocol.members.client import Outgoing

TURN_S_MAX: Final = 0.05


Timer: TypeAlias = tuple[int, int, int]
"""When to poll a rider (ms), its number, and its turn, by which an outdated timer is told."""


class Rider:
    """One member; ``heard_at`` is when its last heartbeat was answered without error."""

    __slots__ = ("channel", "connected_to", "heard_at", "in_flight", "kernel", "number", "turn")

    def __init__(self, number: int, member: Joining, address: Address, interval_ms: int) -> None:
        self.number = number
        self.kernel = member.kernel
        self.kernel.config = replace(self.kernel.config, heartbeat_interval_ms=interval_ms)
        self.kernel.coordinator = BrokerNode(-1, *address)
        self.channel: Channel | None = member.channel
        self.connected_to = address
        self.in_flight: Outgoing | None = None
        self.heard_at = 0.0
        self.turn = 0

    @property
    def address(self) -> Address | None:
        """Where its coordinator is, as far as it knows."""
        node = self.kernel.coordinator
        return None if node is None else (node.host, node.port)


class Riders:
    """All riders, their timers and the connections on which they look for coordinators."""

    def __init__(self, reactor: Reactor, nodes: Sequence[Address], interval_s: float) -> None:
        self.riders: list[Rider] = []
        self.errors: Counter[str] = Counter()
        self._reactor = reactor
        self._interval_ms = round(interval_s * 1000)
        self._timers: list[Timer] = []
        self._rng = random.Random(0)
        self._lanes = Lanes(nodes, lambda address: _Lookup(self, address))

    def add(self, member: Joining, address: Address) -> Rider:
        """Take over a member that has joined at ``address``, connection and all."""
        rider = Rider(len(self.riders), member, address, self._interval_ms)
        self.riders.append(rider)
        self._listen(rider, member.channel)
        now = now_ms()
        rider.kernel.heartbeat_now(now)
        self._wake(rider, now + int(self._rng.random() * self._interval_ms))
        return rider

    def run(self, until: Callable[[], bool], seconds: float) -> bool:
        """Let all ride until a condition holds; False when it does not within ``seconds``."""
        deadline = time.perf_counter() + seconds
        while not until():
            now_s = time.perf_counter()
            if now_s > deadline:
                return False
            self._wake_due(int(now_s * 1000))
            wait_s = min(deadline - now_s, TURN_S_MAX)
            if self._timers:
                wait_s = min(wait_s, self._timers[0][0] / 1000 - time.perf_counter())
            self._reactor.turn(max(wait_s, 0))
        return True

    # --- one rider

    def _wake(self, rider: Rider, at_ms: int) -> None:
        rider.turn += 1
        heapq.heappush(self._timers, (at_ms, rider.number, rider.turn))

    def _wake_due(self, now: int) -> None:
        timers = self._timers
        while timers and timers[0][0] <= now:
            _, number, turn = heapq.heappop(timers)
            rider = self.riders[number]
            if rider.turn == turn and rider.in_flight is None:
                self._step(rider, now)

    def _step(self, rider: Rider, now: int) -> None:
        """Send what the member wants to send, or wake it when it wants to be asked again."""
        for outgoing in rider.kernel.poll(now):
            rider.in_flight = outgoing
            if outgoing.to is None:
                self._lanes.next().ask(self._reactor, rider, outgoing)
            else:
                self._send(rider, outgoing, (outgoing.to.host, outgoing.to.port))
            return
        self._wake_in_time(rider)

    def _wake_in_time(self, rider: Rider) -> None:
        deadline = rider.kernel.next_deadline()
        if deadline is not None:
            self._wake(rider, deadline)

    def _send(self, rider: Rider, outgoing: Outgoing, address: Address) -> None:
        channel = rider.channel
        if channel is not None and rider.connected_to != address:
            channel.close()
            channel = None
        if channel is None:
            rider.connected_to = address
            channel = rider.channel = self._reactor.connect(address)
            self._listen(rider, channel)
        channel.send(outgoing.message.frame)

    def _listen(self, rider: Rider, channel: Channel) -> None:
        channel.received = by_frame(partial(self._answered, rider))
        channel.broken = partial(self._broke, rider)

    def _broke(self, rider: Rider) -> None:
        self.errors["connection lost"] += 1
        rider.channel = None
        now, outgoing = now_ms(), rider.in_flight
        if outgoing is None:
            rider.kernel.disconnected(now)
            self._step(rider, now)
        elif outgoing.to is not None:
            self.lost(rider)

    def _answered(self, rider: Rider, frame: bytes) -> None:
        outgoing, rider.in_flight = rider.in_flight, None
        assert outgoing is not None
        kernel, now_s = rider.kernel, time.perf_counter()
        api_key, now = outgoing.message.__api_key__, int(now_s * 1000)
        answer = read_answer(api_key, frame)
        kernel.receive(outgoing, answer, now)
        if answer.error_code:
            self.errors[answer.error_code.name] += 1
        elif api_key == HEARTBEAT:
            rider.heard_at = now_s
            self._wake_in_time(rider)
            return
        self._step(rider, now)

    # --- finding the coordinator

    def found(self, rider: Rider, frame: bytes) -> None:
        """Take the answer to a rider's question."""
        outgoing, rider.in_flight = rider.in_flight, None
        assert outgoing is not None
        answer = read_answer(FIND_COORDINATOR, frame)
        if answer.coordinators[0].error_code:
            self.errors["no coordinator"] += 1
        now = now_ms()
        rider.kernel.receive(outgoing, answer, now)
        self._step(rider, now)

    def gave_up(self, address: Address, riders: Sequence[Rider]) -> None:
        """Learn that a node is gone: who asked it asks another, after a back-off."""
        self._lanes.broke(address)
        for rider in riders:
            self.lost(rider)

    def lost(self, rider: Rider) -> None:
        """Tell a rider that its request will have no answer."""
        outgoing, rider.in_flight = rider.in_flight, None
        if outgoing is not None:
            now = now_ms()
            rider.kernel.lost(outgoing, now)
            self._step(rider, now)


class _Lookup:
    """A connection to one node on which riders ask for coordinators, opened when one does."""

    def __init__(self, riders: Riders, address: Address) -> None:
        self.address = address
        self._riders = riders
        self._channel: Channel | None = None
        self._client = ClientConnection(CLIENT_ID, newest())

    @property
    def in_flight(self) -> int:
        """What the node owes."""
        return self._client.in_flight

    def ask(self, reactor: Reactor, rider: Rider, outgoing: Outgoing) -> None:
        if self._channel is None:
            self._channel = reactor.connect(self.address)
            self._channel.received, self._channel.broken = self._received, self._broken
        self._client.ask_frame(outgoing.message.frame, rider)
        self._channel.send(self._client.data_to_send())

    def _received(self, data: bytes) -> None:
        for answer in self._client.receive(data):
            self._riders.found(answer.token, answer.response)

    def _broken(self) -> None:
        riders = self._client.ended()
        self._channel, self._client = None, ClientConnection(CLIENT_ID, newest())
        self._riders.gave_up(self.address, riders)
