"""Static members that heartbeat through the loss of their coordinator, with little overhead.

They do only what a real client does: keep a connection to the coordinator and heartbeat every few
seconds. When the connection breaks, they ask any other node for the coordinator, connect there and
heartbeat at once; after each failure in a row they wait a little longer (KIP-580's back-off). The
member kernel implements all that; this module has its connections and its timers. The cost of ten
thousand members must not distort the measurement, so they write frames. FindCoordinator requests go
over a few shared connections (:mod:`bench.client.coordinator_lookup`).
"""

from __future__ import annotations

import heapq
import random
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from bench.client.coordinator_lookup import LookupConnections
from bench.load.joining import now_ms
from protocol.client.connection import ClientConnection
from protocol.client.frames import CLIENT_ID, by_frame
from protocol.client.versions import newest
from protocol.members.client import BrokerNode
from protocol.members.frames import read_answer
from protocol.members.requests import FIND_COORDINATOR, HEARTBEAT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.client.coordinator_lookup import Address
    from bench.client.reactor import Channel, Reactor
    from bench.load.joining import JoiningMember
    from protocol.members.client import Outgoing

TURN_S_MAX: Final = 0.05


Timer: TypeAlias = tuple[int, int, int]
"""When to poll a heartbeater (ms), its number, and its turn, which identifies an outdated timer."""


class StaticHeartbeater:
    """One member; ``heard_at`` is when its last heartbeat was answered without error."""

    __slots__ = ("channel", "connected_to", "heard_at", "in_flight", "kernel", "number", "turn")

    def __init__(
        self, number: int, member: JoiningMember, address: Address, interval_ms: int
    ) -> None:
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
        """The address of its coordinator, as far as it knows."""
        node = self.kernel.coordinator
        return None if node is None else (node.host, node.port)


class StaticHeartbeaters:
    """All heartbeaters, their timers and their connections for FindCoordinator requests."""

    def __init__(self, reactor: Reactor, nodes: Sequence[Address], interval_s: float) -> None:
        self.heartbeaters: list[StaticHeartbeater] = []
        self.errors: Counter[str] = Counter()
        self._reactor = reactor
        self._interval_ms = round(interval_s * 1000)
        self._timers: list[Timer] = []
        self._rng = random.Random(0)
        self._connections = LookupConnections(nodes, lambda address: _LookupChannel(self, address))

    def add(self, member: JoiningMember, address: Address) -> StaticHeartbeater:
        """Take over a member that has joined at ``address``, with its connection."""
        heartbeater = StaticHeartbeater(len(self.heartbeaters), member, address, self._interval_ms)
        self.heartbeaters.append(heartbeater)
        self._listen(heartbeater, member.channel)
        now = now_ms()
        heartbeater.kernel.heartbeat_now(now)
        self._wake(heartbeater, now + int(self._rng.random() * self._interval_ms))
        return heartbeater

    def run(self, until: Callable[[], bool], seconds: float) -> bool:
        """Run until a condition holds; False when it does not within ``seconds``."""
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

    # --- one heartbeater

    def _wake(self, heartbeater: StaticHeartbeater, at_ms: int) -> None:
        heartbeater.turn += 1
        heapq.heappush(self._timers, (at_ms, heartbeater.number, heartbeater.turn))

    def _wake_due(self, now: int) -> None:
        timers = self._timers
        while timers and timers[0][0] <= now:
            _, number, turn = heapq.heappop(timers)
            heartbeater = self.heartbeaters[number]
            if heartbeater.turn == turn and heartbeater.in_flight is None:
                self._step(heartbeater, now)

    def _step(self, heartbeater: StaticHeartbeater, now: int) -> None:
        """Send what the member wants to send, or wake it when it is due again."""
        for outgoing in heartbeater.kernel.poll(now):
            heartbeater.in_flight = outgoing
            if outgoing.to is None:
                self._connections.next().ask(self._reactor, heartbeater, outgoing)
            else:
                self._send(heartbeater, outgoing, (outgoing.to.host, outgoing.to.port))
            return
        self._wake_in_time(heartbeater)

    def _wake_in_time(self, heartbeater: StaticHeartbeater) -> None:
        deadline = heartbeater.kernel.next_deadline()
        if deadline is not None:
            self._wake(heartbeater, deadline)

    def _send(self, heartbeater: StaticHeartbeater, outgoing: Outgoing, address: Address) -> None:
        channel = heartbeater.channel
        if channel is not None and heartbeater.connected_to != address:
            channel.close()
            channel = None
        if channel is None:
            heartbeater.connected_to = address
            channel = heartbeater.channel = self._reactor.connect(address)
            self._listen(heartbeater, channel)
        channel.send(outgoing.message.frame)

    def _listen(self, heartbeater: StaticHeartbeater, channel: Channel) -> None:
        channel.received = by_frame(partial(self._answered, heartbeater))
        channel.broken = partial(self._broke, heartbeater)

    def _broke(self, heartbeater: StaticHeartbeater) -> None:
        self.errors["connection lost"] += 1
        heartbeater.channel = None
        now, outgoing = now_ms(), heartbeater.in_flight
        if outgoing is None:
            heartbeater.kernel.disconnected(now)
            self._step(heartbeater, now)
        elif outgoing.to is not None:
            self.lost(heartbeater)

    def _answered(self, heartbeater: StaticHeartbeater, frame: bytes) -> None:
        outgoing, heartbeater.in_flight = heartbeater.in_flight, None
        assert outgoing is not None
        kernel, now_s = heartbeater.kernel, time.perf_counter()
        api_key, now = outgoing.message.__api_key__, int(now_s * 1000)
        answer = read_answer(api_key, frame)
        kernel.receive(outgoing, answer, now)
        if answer.error_code:
            self.errors[answer.error_code.name] += 1
        elif api_key == HEARTBEAT:
            heartbeater.heard_at = now_s
            self._wake_in_time(heartbeater)
            return
        self._step(heartbeater, now)

    # --- finding the coordinator

    def found(self, heartbeater: StaticHeartbeater, frame: bytes) -> None:
        """Take the answer to a heartbeater's FindCoordinator request."""
        outgoing, heartbeater.in_flight = heartbeater.in_flight, None
        assert outgoing is not None
        answer = read_answer(FIND_COORDINATOR, frame)
        if answer.coordinators[0].error_code:
            self.errors["no coordinator"] += 1
        now = now_ms()
        heartbeater.kernel.receive(outgoing, answer, now)
        self._step(heartbeater, now)

    def gave_up(self, address: Address, heartbeaters: Sequence[StaticHeartbeater]) -> None:
        """Note that a node is gone: its waiting members ask another node, after a back-off."""
        self._connections.broke(address)
        for heartbeater in heartbeaters:
            self.lost(heartbeater)

    def lost(self, heartbeater: StaticHeartbeater) -> None:
        """Tell a heartbeater that its request will have no answer."""
        outgoing, heartbeater.in_flight = heartbeater.in_flight, None
        if outgoing is not None:
            now = now_ms()
            heartbeater.kernel.lost(outgoing, now)
            self._step(heartbeater, now)


class _LookupChannel:
    """A connection to one node for FindCoordinator requests, opened when it is first needed."""

    def __init__(self, heartbeaters: StaticHeartbeaters, address: Address) -> None:
        self.address = address
        self._heartbeaters = heartbeaters
        self._channel: Channel | None = None
        self._client = ClientConnection(CLIENT_ID, newest())

    @property
    def in_flight(self) -> int:
        """The number of requests that the node has not answered."""
        return self._client.in_flight

    def ask(self, reactor: Reactor, heartbeater: StaticHeartbeater, outgoing: Outgoing) -> None:
        if self._channel is None:
            self._channel = reactor.connect(self.address)
            self._channel.received, self._channel.broken = self._received, self._broken
        self._client.ask_frame(outgoing.message.frame, heartbeater)
        self._channel.send(self._client.data_to_send())

    def _received(self, data: bytes) -> None:
        for answer in self._client.receive(data):
            self._heartbeaters.found(answer.token, answer.response)

    def _broken(self) -> None:
        heartbeaters = self._client.ended()
        self._channel, self._client = None, ClientConnection(CLIENT_ID, newest())
        self._heartbeaters.gave_up(self.address, heartbeaters)
