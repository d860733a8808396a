"""Static members that ride through the loss of their coordinator, as light as they can be.

What a real client does, and no more: a connection to the coordinator and a heartbeat every few
seconds; when the connection breaks, ask any other node who coordinates, connect there, heartbeat
at once; wait a little longer after each failure in a row (KIP-580's back-off). Ten thousand of
them must not be what is measured, so frames are made once and nothing that repeats is decoded.
Questions to find a coordinator go over a few shared connections (:mod:`bench.client.lanes`).
"""

from __future__ import annotations

import heapq
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.client.frames import CORRELATION_AT, ERROR_AT, LENGTH, frame_of, split_frames
from bench.client.lanes import Lanes
from bench.load.joining import heartbeat
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import decode_response
from protocol.wire.messages import FindCoordinatorRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.client.lanes import Address
    from bench.client.reactor import Channel, Reactor
    from bench.load.joining import Joining, Plan

BACKOFF_S: Final = 0.1
BACKOFF_S_MAX: Final = 1.0
"""Kafka's ``retry.backoff.ms`` and ``retry.backoff.max.ms``."""
TURN_S_MAX: Final = 0.05
FIND_COORDINATOR: Final = FindCoordinatorRequest.__api_key__
BODY_AT: Final = 8
"""Where an answer's body begins, after length and correlation id."""


class Timer(NamedTuple):
    """When to wake a rider; ``turn`` tells a timer that is outdated."""

    at: float
    number: int
    turn: int


class Rider:
    """One member; ``heard_at`` is when its last heartbeat was answered without error."""

    __slots__ = (
        "address", "channel", "failures", "find", "frame", "group_id", "heard_at", "is_untried",
        "number", "part", "turn",
    )  # fmt: skip

    def __init__(self, number: int, plan: Plan, member: Joining, address: Address) -> None:
        self.number = number
        self.group_id = plan.group_id
        self.frame = bytes(frame_of(heartbeat(plan, member)))
        self.find = frame_of(_find(plan.group_id))
        LENGTH.pack_into(self.find, CORRELATION_AT, number)
        self.address: Address | None = address
        self.channel: Channel | None = member.channel
        self.heard_at = 0.0
        self.is_untried = False
        self.failures = 0
        self.turn = 0
        self.part = b""


class Riders:
    """All riders, their timers and the connections on which they look for coordinators."""

    def __init__(self, reactor: Reactor, nodes: Sequence[Address], interval_s: float) -> None:
        self.riders: list[Rider] = []
        self.errors: Counter[str] = Counter()
        self._reactor = reactor
        self._interval_s = interval_s
        self._timers: list[Timer] = []
        self._rng = random.Random(0)
        self._lanes = Lanes(nodes, lambda address: _Seeker(self, address))
        self._known: dict[bytes, Address | None] = {}

    def add(self, plan: Plan, member: Joining, address: Address) -> Rider:
        """Take over a member that has joined at ``address``, connection and all."""
        rider = Rider(len(self.riders), plan, member, address)
        self.riders.append(rider)
        assert rider.channel is not None
        self._listen(rider, rider.channel)
        self._wake(rider, self._rng.random() * self._interval_s)
        return rider

    def run(self, until: Callable[[], bool], seconds: float) -> bool:
        """Let all ride until a condition holds; False when it does not within ``seconds``."""
        deadline = time.perf_counter() + seconds
        while not until():
            now = time.perf_counter()
            if now > deadline:
                return False
            self._wake_due(now)
            wait_s = min(deadline - now, TURN_S_MAX)
            if self._timers:
                wait_s = min(wait_s, max(self._timers[0].at - time.perf_counter(), 0))
            self._reactor.turn(wait_s)
        return True

    # --- one rider

    def _wake(self, rider: Rider, delay_s: float) -> None:
        rider.turn += 1
        at = time.perf_counter() + delay_s
        heapq.heappush(self._timers, Timer(at, rider.number, rider.turn))

    def _wake_due(self, now: float) -> None:
        timers = self._timers
        while timers and timers[0].at <= now:
            timer = heapq.heappop(timers)
            rider = self.riders[timer.number]
            if rider.turn == timer.turn:
                self._act(rider)

    def _act(self, rider: Rider) -> None:
        """Heartbeat, or find out where to."""
        if rider.address is None:
            self._seek(rider)
            return
        if rider.channel is None:
            rider.channel = self._reactor.connect(rider.address)
            self._listen(rider, rider.channel)
            rider.is_untried = True
        rider.channel.send(rider.frame)

    def _listen(self, rider: Rider, channel: Channel) -> None:
        rider.part = b""
        channel.received = lambda data: self._answered(rider, data)
        channel.broken = lambda: self._broke(rider)

    def _broke(self, rider: Rider) -> None:
        self.errors["connection lost"] += 1
        rider.channel = rider.address = None
        if rider.is_untried:
            self._back_off(rider)
        else:
            self._seek(rider)

    def _answered(self, rider: Rider, data: bytes) -> None:
        frames, rider.part = split_frames(rider.part + data)
        rider.is_untried = False
        for frame in frames:
            error = int.from_bytes(frame[ERROR_AT : ERROR_AT + 2], signed=True)
            if not error:
                rider.heard_at = time.perf_counter()
                rider.failures = 0
                self._wake(rider, self._interval_s)
                continue
            self.errors[ErrorCode(error).name] += 1
            if error != ErrorCode.coordinator_load_in_progress:
                if rider.channel is not None:
                    rider.channel.close()
                rider.channel = rider.address = None
            self._back_off(rider)

    def _back_off(self, rider: Rider) -> None:
        delay_s = min(BACKOFF_S * 2**rider.failures, BACKOFF_S_MAX)
        rider.failures = min(rider.failures + 1, 10)
        self._wake(rider, delay_s * self._rng.uniform(0.8, 1.2))

    # --- finding the coordinator

    def _seek(self, rider: Rider) -> None:
        rider.turn += 1
        self._lanes.next().ask(self._reactor, rider)

    def found(self, number: int, body: bytes) -> None:
        """Take the answer to a rider's question."""
        rider = self.riders[number]
        key = rider.group_id.encode() + body
        if key not in self._known:
            answer = decode_response(FIND_COORDINATOR, FindCoordinatorRequest.__version__, body)
            self._known[key] = _address(answer[1])
        rider.address = self._known[key]
        if rider.address is None:
            self.errors["no coordinator"] += 1
            self._back_off(rider)
        else:
            self._act(rider)

    def gave_up(self, address: Address, numbers: set[int]) -> None:
        """Take it that a node is gone: whoever asked it asks another, after a back-off."""
        self._lanes.broke(address)
        for number in numbers:
            self._back_off(self.riders[number])


class _Seeker:
    """A connection to one node on which riders ask for coordinators, opened when one does."""

    def __init__(self, riders: Riders, address: Address) -> None:
        self.address = address
        self.waiting: set[int] = set()
        self._riders = riders
        self._channel: Channel | None = None
        self._part = b""

    def ask(self, reactor: Reactor, rider: Rider) -> None:
        if self._channel is None:
            self._channel = reactor.connect(self.address)
            self._channel.received, self._channel.broken = self._received, self._broken
        self.waiting.add(rider.number)
        self._channel.send(bytes(rider.find))

    def _received(self, data: bytes) -> None:
        frames, self._part = split_frames(self._part + data)
        for frame in frames:
            number = LENGTH.unpack_from(frame, LENGTH.size)[0]
            self.waiting.discard(number)
            self._riders.found(number, b"\0\0\0\0" + frame[BODY_AT:])

    def _broken(self) -> None:
        self._channel, self._part = None, b""
        waiting, self.waiting = self.waiting, set()
        self._riders.gave_up(self.address, waiting)


def _find(group_id: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=0, coordinator_keys=(group_id,))


def _address(answer: object) -> Address | None:
    found = answer.coordinators[0]  # type: ignore[attr-defined]  # the request settles its type
    return None if found.error_code else (found.host, found.port)
