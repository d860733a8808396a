"""One client's connection: bytes in, one request in flight, answers in order.

Requests that a client pipelines wait here. If too many wait, the socket is no longer read; if a
client does not read its responses, its requests are no longer handled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, cast

from actors.serving.held_bytes import SMALL_BYTES, HeldBytes
from actors.serving.memo import LEASED_KEYS, Memo
from failover.apis.coordinators import software
from protocol.groups.effects import ClientInfo, Request
from protocol.wire.apis import wants_no_answer
from protocol.wire.frames import (
    BadFrame,
    FrameBuffer,
    FrameError,
    UnsupportedApiVersion,
    decode_request,
    group_id_in,
    without_correlation_id,
)
from protocol.wire.messages import ApiVersionsRequest

if TYPE_CHECKING:
    from collections.abc import Hashable

    from failover.requests.inbox import Inbox
    from protocol.groups.effects import Ticket

WAITING_FRAMES_MAX: Final = 64
WAITING_BYTES_MAX: Final = 1 << 20
"""With more waiting requests, or bytes of them, than this, a connection's socket is not read."""

TAKEN_AT_ONCE: Final = 8
"""Requests of one connection to handle in a row before other connections get their turn. Repeated
heartbeats are answered at once, and one read can contain thousands of them: if it contains more
than this, all of them wait for the coordinator's turn, which is bounded in time."""

WRITE_BUFFER_BYTES: Final = 64 << 10
"""With more unread responses than this, a client's requests are not handled."""

FRAME_SWEEPS: Final = 6
FRAME_BYTES_PER_SWEEP: Final = 1 << 20
"""A frame must be complete after this many sweeps, plus one for each unit of its length."""

REPEATED_BYTES_MAX: Final = 2 << 10
"""The response to a longer request is not cached: the cache keeps requests, as many as 50,000."""

ERROR_COUNTS: Final = 4
ERRING: Final = 40
ERRING_MAX: Final = 80
"""Each response with an error counts so much, up to the maximum; each other one takes one away.
From ``ERRING`` on the time of the client's requests counts more: after ten errors in a row, or
while more than a fifth of its responses are errors."""

NOTHING_ASKED: Final = (b"", None)


class RequestHandler(Protocol):
    """Handles the listener's requests (the coordinator)."""

    def wake(self) -> None:
        """Schedule a turn that calls :meth:`Listener.serve`, as requests wait."""

    def receive(self, request: Request) -> None:
        """Handle a request; the response comes by :meth:`Listener.answer`."""

    def abandon(self, ticket: Ticket) -> None:
        """Drop a request whose client has disconnected."""

    def now(self) -> int:
        """Return the current time in Unix milliseconds."""


class Connections(Protocol):
    """What a connection shares with all others (:class:`actors.serving.listener.Listener`)."""

    handler: RequestHandler
    memo: Memo
    held: HeldBytes
    sweeps: int
    unflushed: list[Connection]
    request_bytes_max: int
    inbox: Inbox[Connection]
    measured: Connection | None

    def opened(self, connection: Connection) -> None:
        """Count a connection."""

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""

    def enqueue(self, connection: Connection) -> None:
        """Queue a connection's request under its ``queue_key``."""

    def begin_measured(self) -> float:
        """Note that the request of ``measured`` waits no longer; return the time in seconds."""

    def end_measured(self, began_s: float) -> None:
        """Note that the coordinator has handled that request."""

    def let_in(self) -> None:
        """Queue requests that were held back: there is room again."""

    def ticket_for(self, in_flight: InFlight) -> Ticket:
        """Return a new ticket for a request."""

    def too_many_unfinished(self) -> None:
        """Check whether incomplete frames take too much memory."""

    def unread(self, connection: Connection) -> None:
        """Count a connection whose client does not read its responses."""

    def complain(self, sentence: str) -> None:
        """Log a warning, unless there were many just now."""


class Connection(asyncio.Protocol):
    """The connection of one client; used only on the event loop."""

    __slots__ = (
        "_asked",
        "_asked_bytes",
        "_client",
        "_connections",
        "_frame_sweep",
        "_frames",
        "_is_crowded",
        "_is_full",
        "_is_out_of_room",
        "_is_paused",
        "_out",
        "_transport",
        "_waiting",
        "_waiting_bytes",
        "errors",
        "full_sweeps",
        "in_flight",
        "is_busy",
        "is_held_back",
        "peer",
        "queue_key",
        "seen_sweep",
        "unfinished_bytes",
    )

    def __init__(self, connections: Connections, peer: str) -> None:
        self._connections = connections
        self._frames = FrameBuffer(connections.request_bytes_max)
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._client: ClientInfo | None = None
        self._asked: tuple[bytes, bytes | None] = NOTHING_ASKED
        self._asked_bytes = 0
        self._frame_sweep = 0
        self._is_crowded = False  # too much waits in this connection
        self._is_out_of_room = False  # all connections together hold too many bytes
        self._is_full = False  # the client does not read its responses
        self._is_paused = False
        self.is_held_back = False  # too many requests wait for the coordinator
        self.is_busy = False
        self.in_flight: InFlight | None = None
        self.queue_key: Hashable = self
        self.errors = 0
        self.seen_sweep = connections.sweeps
        self.full_sweeps = 0
        self.unfinished_bytes = 0
        self.peer = peer

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle a new client."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._connections.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's shape
        """Clean up after the connection has ended."""
        self._transport = None
        self._release()
        self._connections.forget(self)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes."""
        if self._transport is None:
            return
        connections = self._connections
        self.seen_sweep = connections.sweeps
        try:
            frames = self._frames.feed(data)
        except FrameError as error:
            self.drop(str(error))
            return
        if self._frames.pending_bytes or self.unfinished_bytes:
            self._count_unfinished(bool(frames))
        is_flood = len(frames) > TAKEN_AT_ONCE
        for frame in frames:
            if is_flood or self.is_busy or self._is_full or self._waiting:
                self._waiting.append(frame)
                self._waiting_bytes += len(frame)
                connections.held.add(len(frame))
            else:
                self._take(frame)
        if self._waiting and not self.is_busy and not self._is_full:
            self._go_on_later()
        self.flush()
        if len(self._waiting) > WAITING_FRAMES_MAX or self._waiting_bytes > WAITING_BYTES_MAX:
            self._is_crowded = True
            self._read_or_not()
        if self.is_held_back:
            self._read_or_not()
        if connections.held.is_over:
            self._make_room()

    def pause_writing(self) -> None:
        """Stop handling requests: the client does not read its responses."""
        self._is_full = True
        self._read_or_not()
        self._connections.unread(self)

    def resume_writing(self) -> None:
        """Continue: the client has read its responses."""
        self._is_full = False
        self.full_sweeps = 0
        self._go_on()
        self.flush()

    # --- the coordinator's side

    def send(self, answer: bytes) -> None:
        """Buffer the response to the request in flight and handle the next request."""
        self.in_flight = None
        self.is_busy = False
        if self._asked_bytes:
            self._connections.held.add(-self._asked_bytes)
            self._asked_bytes = 0
        if self._transport is not None:
            if not self._out:
                self._connections.unflushed.append(self)
            self._out.append(answer)
            if self._waiting or self._is_paused:
                self._go_on()

    def flush(self) -> None:
        """Write all buffered responses to the socket with one system call."""
        out = self._out
        if out:
            if self._transport is not None:
                self._transport.write(out[0] if len(out) == 1 else b"".join(out))
            out.clear()

    def drop(self, why: str) -> None:
        """Close at once, and log why."""
        self._connections.complain(f"closed the connection from {self.peer}: {why}")
        self.close()

    def close(self) -> None:
        """Close without waiting until the client has read."""
        self._release()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def read_again(self) -> None:
        """Read the socket again: there is memory for its bytes."""
        self._is_out_of_room = False
        self._read_or_not()

    def no_longer_held_back(self) -> None:
        """Read the socket again: its request is queued now."""
        self.is_held_back = False
        self._read_or_not()

    def hold_back(self) -> None:
        """Stop reading the socket once more data arrives: the queue is full.

        Stopping and resuming cost two system calls each, so a client that waits for its response
        is not stopped.
        """
        self.is_held_back = True

    def is_erring(self) -> bool:
        """Whether most of the client's requests are refused lately."""
        return self.errors >= ERRING

    # --- for the sweep

    @property
    def is_full(self) -> bool:
        """Whether responses wait because the client does not read."""
        return self._is_full

    @property
    def has_asked(self) -> bool:
        """Whether the client has ever sent a complete request."""
        return self._client is not None

    @property
    def unsent_bytes(self) -> int:
        """The bytes of responses that the client has not read."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def is_dribbling(self, sweeps: int) -> bool:
        """Whether the incoming frame takes too long; called at each sweep."""
        if not self.unfinished_bytes:
            return False
        if self._is_paused:
            self._frame_sweep += 1  # we do not read the socket
        allowed = FRAME_SWEEPS + self._frames.wanted_bytes // FRAME_BYTES_PER_SWEEP
        return sweeps - self._frame_sweep > allowed

    # --- one request

    def _take(self, frame: bytes) -> None:
        connections = self._connections
        key = None
        if frame[:2] in LEASED_KEYS and len(frame) <= REPEATED_BYTES_MAX:
            key = without_correlation_id(frame)
            answer = connections.memo.recall(key, frame, connections.handler.now)
            if answer is not None:
                self._out.append(answer)
                return
        self.is_busy = True
        self._asked = (frame, key)
        self._asked_bytes = len(frame)
        connections.held.add(len(frame))
        group_id = group_id_in(frame)
        self.queue_key = self if group_id is None else group_id
        connections.enqueue(self)

    def ask(self) -> None:
        """Pass the waiting request to the coordinator."""
        connections = self._connections
        began_s = connections.begin_measured() if connections.measured is self else None
        connections.let_in()
        (frame, memo_key), self._asked = self._asked, NOTHING_ASKED
        if self._transport is None:
            return
        if not frame:
            self.is_busy = False
            self._go_on()
            self.flush()
            return
        try:
            decoded = decode_request(frame)
        except BadFrame as error:
            self.drop(str(error))
            return
        except UnsupportedApiVersion as error:
            if error.answer is None:
                self.drop(str(error))
            else:
                self.send(error.answer)
                self.flush()
            return
        if wants_no_answer(decoded.api_key, decoded.message):
            self.drop("its request expects no response and is not supported")
            return
        client = self._client
        client_id = decoded.client_id or ""
        if client is None or client.client_id != client_id:
            before = "" if client is None else client.software
            client = self._client = ClientInfo(client_id, "/" + self.peer, before)
        if isinstance(decoded.message, ApiVersionsRequest) and (told := software(decoded.message)):
            client = self._client = replace(client, software=told)
        self.in_flight = InFlight(self, decoded.api_key, decoded.api_version, frame[4:8], memo_key)
        request = Request(
            ticket=connections.ticket_for(self.in_flight),
            api_key=decoded.api_key,
            api_version=decoded.api_version,
            client=client,
            message=decoded.message,
            following=connections.inbox.following,
            frame=frame,
        )
        connections.handler.receive(request)
        if began_s is not None:
            connections.end_measured(began_s)

    def _go_on_later(self) -> None:
        """Handle the next requests after those of other connections."""
        self.is_busy = True
        self.queue_key = self
        self._connections.enqueue(self)

    def _go_on(self) -> None:
        taken = 0
        while self._waiting and not self.is_busy and not self._is_full:
            if taken == TAKEN_AT_ONCE:
                self._go_on_later()
                break
            taken += 1
            frame = self._waiting.popleft()
            self._waiting_bytes -= len(frame)
            self._connections.held.add(-len(frame))
            self._take(frame)
        if (
            len(self._waiting) <= WAITING_FRAMES_MAX // 2
            and self._waiting_bytes <= WAITING_BYTES_MAX // 2
        ):
            self._is_crowded = False
        self._read_or_not()

    # --- reading and holding

    def _read_or_not(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        pauses = (
            self._is_full
            or self._is_crowded
            or self._is_out_of_room
            or (self.is_held_back and bool(self._waiting or self.unfinished_bytes))
        )
        if pauses and not self._is_paused:
            self._is_paused = True
            transport.pause_reading()
        elif self._is_paused and not pauses:
            self._is_paused = False
            transport.resume_reading()

    def _count_unfinished(self, has_finished: bool) -> None:
        if has_finished or not self.unfinished_bytes:
            self._frame_sweep = self._connections.sweeps
        before, self.unfinished_bytes = self.unfinished_bytes, self._frames.pending_bytes
        self._connections.held.add_unfinished(self.unfinished_bytes - before)

    def _make_room(self) -> None:
        """Stop reading until there is memory, unless this connection holds little."""
        mine = self._asked_bytes + self._waiting_bytes + self.unfinished_bytes
        if mine > SMALL_BYTES and not self._is_out_of_room:
            self._is_out_of_room = True
            self._read_or_not()
            self._connections.held.leave_unread(self)
        self._connections.too_many_unfinished()

    def _release(self) -> None:
        """Release all buffers."""
        held = self._connections.held
        held.forget(self)
        unfinished, self.unfinished_bytes = self.unfinished_bytes, 0
        whole, self._asked_bytes, self._waiting_bytes = (
            self._asked_bytes + self._waiting_bytes, 0, 0,
        )  # fmt: skip
        self._frames = FrameBuffer(0)
        self._asked = NOTHING_ASKED
        self._waiting.clear()
        self._out.clear()
        if unfinished:
            held.add_unfinished(-unfinished)
        if whole:
            held.add(-whole)


class InFlight:
    """What is needed to answer a request: its connection, version, and key in the memo."""

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
