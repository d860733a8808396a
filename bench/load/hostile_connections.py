"""Hostile connections of every kind on one reactor: some flood, some dribble, some are silent."""

from __future__ import annotations

import contextlib
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.client.reactor import Reactor
from bench.load.hostile_conversations import Conversations
from bench.load.hostile_counts import (
    DRAWN,
    PATIENCE_S,
    REPEATED,
    ROUGH_BYTES,
    Address,
    HostileCounts,
)
from bench.load.hostile_frames import LENGTH

if TYPE_CHECKING:
    from bench.client.reactor import Channel
    from bench.load.hostile_pools import Burst, Pool

Bursts = Callable[[Address], tuple[bytes, int]]

BURST_CONNECTIONS: Final = 40
"""Connections of each kind to each coordinator that send bursts and read the answers."""
BURST: Final = 25
ROUGH_SHARE: Final = 0.25
"""One in this many bursts ends with a rough frame, after which the connection is mostly closed."""
TICK_S: Final = 0.25
FLOOD_SHARE: Final = 0.92
"""This share of the pace is for mutated requests of real members, plus the part of the rest that is
not answered in time."""
CONVERSATION_SHARE: Final = 0.03
"""This share is for frames of conversations: each is written for itself."""

PACE_S: Final = 0.01
ANYWHERE: Final = ("", 0)

SILENT, DRIBBLING, DEAF, SLOW, HOLDING, KNOCKING = 500, 30, 8, 8, 2, 40
"""Connections of the other kinds, to each address of that kind."""
HELD_BYTES: Final = 256 << 10
SLOW_BYTES: Final = 200


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
    connection.send(storm.pool.half()[:1])
    say_nothing(storm, connection)


def ask_and_not_read(storm: HostileLoad, connection: socket.socket) -> None:
    """Send many requests and read nothing."""
    connection.send(storm.some_valid())
    storm.count.unread_bursts += 1


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
    connection.send(storm.pool.rough())
    say_nothing(storm, connection)


@dataclass(frozen=True, slots=True)
class HostileTargets:
    """What is attacked: the coordinators' listeners, and ports for peers and the console.

    ``floods`` are the coordinators for which the pool has bursts, in its order. If given, at least
    :data:`FLOOD_SHARE` of the frames are these. ``talks`` are the groups for conversations, by
    their coordinator.
    """

    clients: Sequence[Address]
    others: Sequence[Address] = ()
    floods: Sequence[Address] = ()
    talks: Mapping[Address, Sequence[str]] = field(default_factory=dict)


class HostileLoad:
    """All hostile connections; call :meth:`turn` repeatedly."""

    def __init__(
        self, pool: Pool, targets: HostileTargets, per_second: float = float("inf")
    ) -> None:
        clients, floods, talks = targets.clients, targets.floods, targets.talks
        self.pool = pool
        self.count = HostileCounts()
        self.now_s = time.monotonic()
        self._reactor = Reactor()
        self._flooded = floods
        self.renew(pool)
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
            RawConnection(self, address, knock)
            for address in targets.others
            for _ in range(KNOCKING)
        ]
        self._begun_s = self.now_s
        self._per_second = per_second
        talk_share = CONVERSATION_SHARE if talks else 0.0
        self._fuzz_share = 1 - FLOOD_SHARE * bool(floods) - talk_share
        self.talking = Conversations(
            self.connect, self.count, talks, lambda: self._due() * talk_share, len(pool.valid)
        )
        self.mutated = BurstConnections(self, self.next_burst, self._mutated_due)
        self.flooding = BurstConnections(self, self._next_flood, self._flooding_due)
        for kind, addresses in ((self.mutated, clients), (self.flooding, floods)):
            for address in addresses:
                for _ in range(BURST_CONNECTIONS):
                    kind.add(address)

    def _due(self) -> float:
        return (self.now_s - self._begun_s) * self._per_second

    def _mutated_due(self) -> float:
        return self._due() * self._fuzz_share

    def _flooding_due(self) -> float:
        """Return how many frames are due, less those sent by the others: so the pace is kept."""
        return self._due() - self.mutated.sent - self.talking.sent

    def turn(self) -> None:
        """Do what is due now; takes at most about a tick."""
        self.now_s = time.monotonic()
        if self.now_s - self._ticked_s >= TICK_S:
            self._ticked_s = self.now_s
            for raw in self._raw:
                raw.tick()
            self.mutated.tick()
            self.flooding.tick()
            self.talking.tick()
        self.mutated.turn()
        self.talking.turn(self.now_s)
        self.flooding.turn()
        self._reactor.turn(PACE_S)

    def some_valid(self) -> bytes:
        """Return some frames for a connection that does not read, and so are not counted."""
        return self.pool.random.choice(self._valid)

    def next_burst(self, _address: Address = ANYWHERE) -> tuple[bytes, int]:
        """Return some frames, and their number."""
        draw, sent = self.pool.random, self.count.sent
        number = int(draw.random() * len(self._valid))
        burst = self._valid[number]
        size = min(BURST, len(self.pool.valid) - number * BURST)
        if number not in self._used:
            self._used.add(number)
            self.count.distinct += size
        sent[DRAWN] += size
        if draw.random() > ROUGH_SHARE:
            return burst, size
        sent[ROUGH_BYTES] += 1
        self.count.distinct += 1
        return burst + self.pool.rough(), size + 1

    def _next_flood(self, address: Address) -> tuple[bytes, int]:
        bursts = self._floods[address]
        number = int(self.pool.random.random() * len(bursts))
        burst = bursts[number]
        if (address, number) not in self._used_floods:
            self._used_floods.add((address, number))
            self.count.distinct += burst.size - burst.kinds[REPEATED]
        self.count.sent.update(burst.kinds)
        return burst.frames, burst.size

    def connect(self, address: Address, broken: Callable[[], None]) -> Channel:
        """Open a connection."""
        self.count.connections += 1
        channel = self._reactor.connect(address)
        channel.broken = broken
        return channel

    def renew(self, pool: Pool) -> None:
        """Continue with another pool."""
        self.pool = pool
        self._valid = pool.bursts(BURST)
        self._used: set[int] = set()
        self._floods: dict[Address, list[Burst]] = dict(
            zip(self._flooded, pool.floods, strict=bool(self._flooded))
        )
        self._used_floods: set[tuple[Address, int]] = set()

    def close(self) -> None:
        """Close every connection."""
        for raw in self._raw:
            raw.close()
        self._reactor.close()
