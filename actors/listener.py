"""The door of a coordinator: TCP connections on one side, requests with tickets on the other.

A connection has one request in flight and gets its answers in order, as in Kafka; what it sends
meanwhile waits, and when too much waits its socket is not read any more. A heartbeat that is like
the one before is answered here as soon as it is read, without asking the host (see :class:`Memo`);
all else waits in an :class:`Inbox`, from which the coordinator takes as much as it has time for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, cast

from actors.complaints import Complaints
from actors.inbox import Inbox, serve
from actors.memo import MEMORABLE, Memo
from protocol.groups.effects import Client, Request
from protocol.wire.apis import wants_no_answer
from protocol.wire.frames import (
    BadFrame,
    FrameBuffer,
    FrameError,
    UnsupportedApiVersion,
    decode_request,
    encode_response,
    group_id_in,
    without_correlation_id,
)

if TYPE_CHECKING:
    from protocol.groups.effects import Reply, Ticket

_log = logging.getLogger("rollcall.listener")

WAITING_FRAMES_MAX: Final = 64
"""So many requests may wait in one connection before its socket is no longer read."""

WRITE_BUFFER_BYTES: Final = 1 << 20
"""Answers not taken by the client beyond this: none of its requests is looked at any more."""

SLOW_READER_SWEEPS: Final = 4
"""A client that takes nothing for so many sweeps of a full buffer is let go."""

SWEEPS_PER_IDLE_TIME: Final = 8
SWEEP_S_MAX: Final = 15.0
BACKLOG: Final = 4_096
ACCEPTS: Final = 64
"""So many connections are accepted in one turn of the event loop, which takes one for each
listening socket: with a write to the disk in each turn, thousands that reconnect would crawl in."""
NOTHING_ASKED: Final = (b"", None)


class Door(Protocol):
    """What the listener needs of the coordinator behind it."""

    def wake(self) -> None:
        """Learn that requests wait: have a turn that calls :meth:`Listener.serve`."""

    def receive(self, request: Request) -> int:
        """Take a request; the answer comes by :meth:`Listener.answer`.

        Return of how many parts the record consists that it rewrites; 0 when it rewrites none.
        """

    def abandon(self, ticket: Ticket) -> None:
        """Forget a request whose client has gone away."""

    def now(self) -> int:
        """Return the Unix time in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a client may ask of us."""

    request_bytes_max: int
    idle_ms_max: int


class Connection(asyncio.Protocol):
    """One client. Only the event loop touches it."""

    __slots__ = (
        "_asked",
        "_client",
        "_frames",
        "_is_full",
        "_is_paused",
        "_listener",
        "_out",
        "_transport",
        "_waiting",
        "full_sweeps",
        "in_flight",
        "is_busy",
        "peer",
        "seen_sweep",
    )

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._frames = FrameBuffer(listener.limits.request_bytes_max)
        self._waiting: deque[bytes] = deque()
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._client: Client | None = None
        self._asked: tuple[bytes, bytes | None] = NOTHING_ASKED
        self._is_full = False
        self._is_paused = False
        self.is_busy = False
        self.in_flight: _InFlight | None = None
        self.seen_sweep = listener.sweeps
        self.full_sweeps = 0
        self.peer = ""

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: a new client."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        peername = transport.get_extra_info("peername")
        self.peer = str(peername[0]) if peername else "unknown"
        self._listener.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's shape
        """End: the client or we have closed."""
        self._transport = None
        self._waiting.clear()
        self._listener.forget(self)

    def data_received(self, data: bytes) -> None:
        """Take what the socket had."""
        self.seen_sweep = self._listener.sweeps
        try:
            frames = self._frames.feed(data)
        except FrameError as error:
            self.drop(str(error))
            return
        for frame in frames:
            if self.is_busy or self._is_full or self._waiting:
                self._waiting.append(frame)
            else:
                self._take(frame)
        self.flush()
        if len(self._waiting) > WAITING_FRAMES_MAX:
            self._pause()

    def pause_writing(self) -> None:
        """Stop answering: the client does not read what it asked for."""
        self._is_full = True
        self._pause()

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        self._is_full = False
        self.full_sweeps = 0
        self._go_on()
        self.flush()

    # --- the coordinator's side

    def send(self, answer: bytes) -> None:
        """Write the answer to the request in flight and look at the next one."""
        self.in_flight = None
        self.is_busy = False
        if self._transport is not None:
            if not self._out:
                self._listener.unflushed.append(self)
            self._out.append(answer)
            if self._waiting or self._is_paused:
                self._go_on()

    def flush(self) -> None:
        """Hand the answers so far to the socket: one system call for all of them."""
        out = self._out
        if out:
            if self._transport is not None:
                self._transport.write(out[0] if len(out) == 1 else b"".join(out))
            out.clear()

    def drop(self, why: str) -> None:
        """Close at once, with one line in the log."""
        self._listener.complaints.say(f"closed the connection from {self.peer}: {why}")
        self.close()

    def close(self) -> None:
        """Close without waiting for the client to read."""
        self._waiting.clear()
        self._out.clear()
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_full(self) -> bool:
        """Whether answers wait because the client does not read."""
        return self._is_full

    # --- one request

    def _take(self, frame: bytes) -> None:
        listener = self._listener
        key = None
        if frame[:2] in MEMORABLE:
            key = without_correlation_id(frame)
            answer = listener.memo.recall(key, frame, listener.door.now)
            if answer is not None:
                self._out.append(answer)
                return
        self.is_busy = True
        self._asked = (frame, key)
        group_id = group_id_in(frame)
        listener.inbox.push(self if group_id is None else group_id, self)
        listener.door.wake()

    def ask(self) -> int:
        """Ask the coordinator what the client has asked; return as :meth:`Door.receive`."""
        (frame, memo_key), self._asked = self._asked, NOTHING_ASKED
        if self._transport is None:
            return 0
        try:
            decoded = decode_request(frame)
        except BadFrame as error:
            self.drop(str(error))
            return 0
        except UnsupportedApiVersion as error:
            if error.answer is None:
                self.drop(str(error))
            else:
                self.send(error.answer)
                self.flush()
            return 0
        if wants_no_answer(decoded.api_key, decoded.message):
            self.drop("its request wants no answer and can not be carried out")
            return 0
        client = self._client
        client_id = decoded.client_id or ""
        if client is None or client.client_id != client_id:
            client = self._client = Client(client_id, "/" + self.peer)
        self.in_flight = _InFlight(self, decoded.api_key, decoded.api_version, frame[4:8], memo_key)
        request = Request(
            ticket=self._listener.ticket_for(self.in_flight),
            api_key=decoded.api_key,
            api_version=decoded.api_version,
            client=client,
            message=decoded.message,
        )
        return self._listener.door.receive(request)

    def _go_on(self) -> None:
        while self._waiting and not self.is_busy and not self._is_full:
            self._take(self._waiting.popleft())
        if self._is_paused and not self._is_full and len(self._waiting) <= WAITING_FRAMES_MAX // 2:
            self._is_paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def _pause(self) -> None:
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            if not self._transport.is_closing():
                self._transport.pause_reading()


class _InFlight:
    """What is needed to answer a request: who asked, how, and under which name to remember it."""

    __slots__ = ("api_key", "api_version", "connection", "correlation", "memo_key", "ticket")

    def __init__(
        self,
        connection: Connection,
        api_key: int,
        api_version: int,
        correlation: bytes,
        memo_key: bytes | None,
    ) -> None:
        self.connection = connection
        self.api_key = api_key
        self.api_version = api_version
        self.correlation = correlation
        self.memo_key = memo_key
        self.ticket: Ticket = 0


class Listener:
    """All connections of one coordinator."""

    def __init__(self, door: Door, limits: Limits) -> None:
        self.door = door
        self.limits = limits
        self.memo = Memo()
        self.complaints = Complaints(_log)
        self.connections: set[Connection] = set()
        self.unflushed: list[Connection] = []
        self.inbox: Inbox[Connection] = Inbox()
        self.sweeps = 0
        self._tickets: dict[Ticket, _InFlight] = {}
        self._last_ticket: Ticket = 0
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def open(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError when the address can not be had."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Connection(self), host, port, backlog=BACKLOG, reuse_address=True
        )
        self._servers.append(server)
        for listening in server.sockets:
            for _ in range(ACCEPTS - 1):
                again = listening.dup()
                self._servers.append(
                    await loop.create_server(lambda: Connection(self), sock=again, backlog=BACKLOG)
                )
        self._sweep(loop)
        return int(server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop listening and close every connection."""
        for server in self._servers:
            server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.close()

    def serve(self, seconds: float) -> bool:
        """Hand waiting requests to the door, as :func:`actors.inbox.serve` does."""
        return serve(self.inbox, Connection.ask, time.perf_counter, seconds)

    # --- tickets

    def draw_ticket(self) -> Ticket:
        """Draw a ticket that no client's request has."""
        self._last_ticket += 1
        return self._last_ticket

    def ticket_for(self, in_flight: _InFlight) -> Ticket:
        """Draw a ticket for a client's request."""
        ticket = in_flight.ticket = self.draw_ticket()
        self._tickets[ticket] = in_flight
        return ticket

    def answer(self, reply: Reply) -> bool:
        """Address an answer, for :meth:`flush` to send; False when its ticket is not ours."""
        in_flight = self._tickets.pop(reply.ticket, None)
        if in_flight is None:
            return False
        correlation = int.from_bytes(in_flight.correlation, "big", signed=True)
        answer = encode_response(
            in_flight.api_key, in_flight.api_version, correlation, reply.message
        )
        if reply.lease is not None and in_flight.memo_key is not None:
            self.memo.remember(in_flight.memo_key, reply.lease, answer)
        in_flight.connection.send(answer)
        return True

    def flush(self) -> None:
        """Send what was answered in this turn: a socket is written once, however much it got."""
        for connection in self.unflushed:
            connection.flush()
        self.unflushed.clear()

    def fail(self, ticket: Ticket, why: str) -> None:
        """Close the connection of a request that can not be answered."""
        in_flight = self._tickets.pop(ticket, None)
        if in_flight is not None:
            in_flight.connection.drop(why)

    def forget(self, connection: Connection) -> None:
        """Let go of a connection that is closed."""
        self.connections.discard(connection)
        in_flight = connection.in_flight
        if in_flight is not None and self._tickets.pop(in_flight.ticket, None) is not None:
            self.door.abandon(in_flight.ticket)

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._tickets)

    # --- idle and slow clients

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close who has said nothing for ``connections.max.idle.ms``, and who does not read."""
        period_s = min(self.limits.idle_ms_max / 1000 / SWEEPS_PER_IDLE_TIME, SWEEP_S_MAX)
        silent_max = self.limits.idle_ms_max / 1000 / period_s
        self.sweeps += 1
        for connection in list(self.connections):
            if connection.is_full:
                connection.full_sweeps += 1
                if connection.full_sweeps > SLOW_READER_SWEEPS:
                    connection.drop("the client does not read its answers")
            elif not connection.is_busy and self.sweeps - connection.seen_sweep > silent_max:
                connection.close()
        self._sweeper = loop.call_later(period_s, self._sweep, loop)


def raise_open_files_limit() -> int:
    """Allow this process as many open files (connections) as the system lets it; return that."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
