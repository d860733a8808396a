"""Hostile connections of every kind on one reactor: some flood, some dribble, some are silent."""

from __future__ import annotations

import contextlib
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bench.client.reactor import Reactor
from bench.load.hostile_frames import LENGTH, Pool, flip

if TYPE_CHECKING:
    from bench.client.reactor import Channel

Address = tuple[str, int]
Burst = tuple[bytes, int]
Bursts = Callable[[Address], Burst]

BURST_CONNECTIONS: Final = 40
"""Connections of each kind to each coordinator that send bursts and read the answers."""
BURST: Final = 25
ROUGH_SHARE: Final = 0.25
"""One in this many bursts ends with a rough frame, after which the connection is mostly closed."""
PATIENCE_S: Final = 5.0
"""A connection that waits longer (for a rebalance, say) is closed and opened again."""
TICK_S: Final = 0.25
BURSTS: Final = 1_000
FLOOD_BURSTS: Final = 100
"""How many bursts are prepared in advance."""
FLOOD_BURST: Final = 99
FLOOD_SHARE: Final = 0.8
"""This share of the pace is for valid heartbeats, plus the part of the rest that is not answered in
time: a frame of another kind costs a server as much as some twenty of these."""
PACE_S: Final = 0.01
ANYWHERE: Final = ("", 0)
NO_FLOODS: Final[Mapping[Address, Sequence[bytes]]] = MappingProxyType({})

SILENT, DRIBBLING, DEAF, SLOW, HOLDING, KNOCKING = 500, 30, 8, 8, 2, 40
"""Connections of the other kinds, to each address of that kind."""
HELD_BYTES: Final = 256 << 10
SLOW_BYTES: Final = 200


class HostileCounts:
    """Totals of the load.

    A frame counts when a server has handled it: it was answered, or its connection was closed
    because of it, or it timed out. Frames sent after that, and by connections that do not read, are
    not counted.
    """

    def __init__(self) -> None:
        self.answered = self.closed_on_us = self.gave_up = self.connections = 0

    @property
    def frames(self) -> int:
        """Frames that servers have handled."""
        return self.answered + self.closed_on_us + self.gave_up


class BurstConnections:
    """Connections of one kind that together send at most ``due()`` frames in total."""

    def __init__(self, storm: HostileLoad, bursts: Bursts, due: Callable[[], float]) -> None:
        self.storm = storm
        self.bursts = bursts
        self.answered = 0
        self.sent = 0
        self.waiting: deque[BurstConnection] = deque()
        self._connections: list[BurstConnection] = []
        self._due = due

    def add(self, address: Address) -> None:
        """Add one."""
        self._connections.append(BurstConnection(self, address))

    def turn(self) -> None:
        """Let the connections send that are due."""
        due = self._due()
        while self.waiting and self.sent < due:
            connection = self.waiting.popleft()
            self.sent += connection.send()

    def tick(self) -> None:
        """Let the connections give up that have waited too long."""
        for connection in self._connections:
            if connection.waits_for > 0 and self.storm.now_s - connection.heard_s > PATIENCE_S:
                connection.give_up()


class BurstConnection:
    """Sends bursts of frames and waits for their answers; reconnects when it is closed."""

    def __init__(self, connections: BurstConnections, address: Address) -> None:
        self._connections = connections
        self._storm = connections.storm
        self._address = address
        self._left_over = b""
        self.waits_for = 0
        self.heard_s = 0.0
        self._connect()

    def _connect(self) -> None:
        self._channel = self._storm.connect(self._address, self._broken)
        self._channel.received = self._received
        self._left_over = b""
        self.waits_for = 0
        self._connections.waiting.append(self)

    def send(self) -> int:
        """Send a burst; return how many frames it has."""
        burst, count = self._connections.bursts(self._address)
        self.waits_for = count
        self.heard_s = self._storm.now_s
        self._channel.send(burst)
        return count

    def _received(self, data: bytes) -> None:
        if self._left_over:
            data = self._left_over + data
        at, end, answers = 0, len(data), 0
        while end - at >= 4:
            after = at + 4 + LENGTH.unpack_from(data, at)[0]
            if after > end:
                break
            at = after
            answers += 1
        self._left_over = data[at:]
        self.heard_s = self._storm.now_s
        self._storm.count.answered += answers
        self._connections.answered += answers
        self.waits_for -= answers
        if self.waits_for <= 0 < answers:
            self._connections.waiting.append(self)

    def _broken(self) -> None:
        if self.waits_for > 0:
            self._storm.count.closed_on_us += 1
        else:
            self._connections.waiting.remove(self)
        self._connect()

    def give_up(self) -> None:
        """Close and reconnect."""
        self._storm.count.gave_up += 1
        self._channel.close()
        self._connect()


class RawConnection:
    """A connection that the reactor does not read; every tick calls ``act`` on it."""

    def __init__(
        self,
        storm: HostileLoad,
        address: Address,
        act: Callable[[HostileLoad, socket.socket], None],
    ) -> None:
        self._storm = storm
        self._address = address
        self._act = act
        self._socket: socket.socket | None = None

    def tick(self) -> None:
        """Act; reconnect when the other side has closed."""
        try:
            if self._socket is None:
                self._socket = socket.socket()
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                self._socket.setblocking(False)
                self._storm.count.connections += 1
                self._socket.connect_ex(self._address)
            else:
                self._act(self._storm, self._socket)
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def close(self) -> None:
        """Close it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def say_nothing(_storm: HostileLoad, connection: socket.socket) -> None:
    """Only check whether the other side has closed."""
    if not connection.recv(1):
        raise ConnectionResetError


def dribble(storm: HostileLoad, connection: socket.socket) -> None:
    """Send a byte of a frame that never ends."""
    connection.send(storm.pool.random.choice(storm.pool.halves)[:1])
    say_nothing(storm, connection)


def ask_and_not_read(storm: HostileLoad, connection: socket.socket) -> None:
    """Send many requests and read nothing."""
    connection.send(storm.next_burst(only_valid=True)[0])


def read_slowly(storm: HostileLoad, connection: socket.socket) -> None:
    """Send many requests and read little."""
    with contextlib.suppress(BlockingIOError):
        ask_and_not_read(storm, connection)
    if not connection.recv(SLOW_BYTES):
        raise ConnectionResetError


def hold(_storm: HostileLoad, connection: socket.socket) -> None:
    """Send a large part of a frame of the maximum length, and never its end."""
    connection.send(LENGTH.pack(100 << 20) + bytes(HELD_BYTES))


def knock(storm: HostileLoad, connection: socket.socket) -> None:
    """Send garbage, or a rough frame, to a port that is not for clients."""
    connection.send(storm.pool.random.choice(storm.pool.rough))
    say_nothing(storm, connection)


class HostileLoad:
    """All hostile connections; call :meth:`turn` repeatedly."""

    def __init__(
        self,
        pool: Pool,
        clients: Sequence[Address],
        others: Sequence[Address] = (),
        floods: Mapping[Address, Sequence[bytes]] = NO_FLOODS,
        per_second: float = float("inf"),
    ) -> None:
        """``clients`` are the coordinators' listeners, ``others`` ports for peers and the console.

        ``floods`` are valid heartbeats, by the coordinator that answers them. If given, at least
        :data:`FLOOD_SHARE` of the frames are these.
        """
        self.pool = pool
        self.count = HostileCounts()
        self.now_s = time.monotonic()
        self._reactor = Reactor()
        self._valid = [pool.burst(BURST) for _ in range(BURSTS)]
        self._floods = {address: _flood_bursts(pool, floods[address]) for address in floods}
        self._ticked_s = self.now_s
        kinds = (
            (SILENT, say_nothing), (DRIBBLING, dribble), (DEAF, ask_and_not_read),
            (SLOW, read_slowly), (HOLDING, hold),
        )  # fmt: skip
        self._raw = [
            RawConnection(self, address, act)
            for address in clients
            for count, act in kinds
            for _ in range(count)
        ]
        self._raw += [
            RawConnection(self, address, knock) for address in others for _ in range(KNOCKING)
        ]
        self._begun_s = self.now_s
        self._per_second = per_second
        self._fuzz_share = 1 - FLOOD_SHARE if floods else 1.0
        self.mutated = BurstConnections(self, self.next_burst, self._mutated_due)
        self.flooding = BurstConnections(self, self._next_flood, self._flooding_due)
        for kind, addresses in ((self.mutated, clients), (self.flooding, list(floods))):
            for address in addresses:
                for _ in range(BURST_CONNECTIONS):
                    kind.add(address)

    def _mutated_due(self) -> float:
        return (self.now_s - self._begun_s) * self._per_second * self._fuzz_share

    def _flooding_due(self) -> float:
        """Return how many frames are due, less those sent by the others: so the pace is kept."""
        return (self.now_s - self._begun_s) * self._per_second - self.mutated.sent

    def turn(self) -> None:
        """Do what is due now; takes at most about a tick."""
        self.now_s = time.monotonic()
        if self.now_s - self._ticked_s >= TICK_S:
            self._ticked_s = self.now_s
            for raw in self._raw:
                raw.tick()
            self.mutated.tick()
            self.flooding.tick()
        self.mutated.turn()
        self.flooding.turn()
        self._reactor.turn(PACE_S)

    def next_burst(self, _address: Address = ANYWHERE, only_valid: bool = False) -> Burst:
        """Return some frames, and their number."""
        draw = self.pool.random
        burst = self._valid[int(draw.random() * BURSTS)]
        if only_valid or draw.random() > ROUGH_SHARE:
            return burst, BURST
        return burst + draw.choice(self.pool.rough), BURST + 1

    def _next_flood(self, address: Address) -> Burst:
        bursts = self._floods[address]
        return bursts[int(self.pool.random.random() * len(bursts))], FLOOD_BURST + 1

    def connect(self, address: Address, broken: Callable[[], None]) -> Channel:
        """Open a connection."""
        self.count.connections += 1
        channel = self._reactor.connect(address)
        channel.broken = broken
        return channel

    def renew(self, pool: Pool) -> None:
        """Continue with another pool."""
        self.pool = pool
        self._valid = [pool.burst(BURST) for _ in range(BURSTS)]

    def close(self) -> None:
        """Close every connection."""
        for raw in self._raw:
            raw.close()
        self._reactor.close()


def _flood_bursts(pool: Pool, frames: Sequence[bytes]) -> list[bytes]:
    """Return bursts of valid heartbeats, each with one that is slightly changed at its end."""
    draw = pool.random
    return [
        b"".join(draw.choices(frames, k=FLOOD_BURST)) + flip(draw, draw.choice(frames))
        for _ in range(FLOOD_BURSTS)
    ]
