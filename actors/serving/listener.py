"""All connections of a coordinator on one side, requests with tickets on the other.

A connection has one request in flight and gets its responses in order, as in Kafka. A heartbeat
that equals the one before is answered as soon as it is read, without the host (see :class:`Memo`);
all other requests wait in an :class:`Inbox`, from which the coordinator takes as many as it has
time for. When ``queued.max.requests`` wait there, further requests wait in their connections, whose
sockets are not read meanwhile; these too are admitted by group in turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from actors.serving.acceptor import Acceptor
from actors.serving.admission import Admission, Limits
from actors.serving.connection import (
    ERRING_MAX,
    ERROR_COUNTS,
    Connection,
    InFlight,
    RequestHandler,
)
from actors.serving.held_bytes import HeldBytes
from actors.serving.memo import Memo
from actors.telemetry.event_metrics import TIMED_APIS
from actors.telemetry.rate_limited_log import RateLimitedLog
from failover.requests.inbox import Inbox, serve
from protocol.wire.frames import encode_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.groups.effects import Reply, Ticket

__all__ = ("Limits", "Listener")

_log = logging.getLogger("rollcall.listener")

SLOW_READER_SWEEPS: Final = 4
"""A client that does not read its full buffer for this many sweeps is disconnected."""

SILENT_SWEEPS: Final = 2
"""With too many connections, a client that sent no request for this many sweeps is closed."""

SWEEPS_PER_IDLE_TIME: Final = 8
SWEEP_S_MAX: Final = 5.0


class Listener:
    """All connections of one coordinator (:class:`actors.serving.connection.Connections`).

    ``serve`` passes waiting requests to the handler for a number of seconds, as
    :func:`failover.requests.inbox.serve` does; a turn in which erring clients are served is
    shorter. This thread's CPU time counts: on an overloaded machine, other processes do not shorten
    a turn, which would then handle only a few requests per write.

    ``answered`` is told of each answer: its API key, ticket and bytes. ``timed`` is told of one
    request at a time how long it waited and how long it took, in seconds: that of the connection
    ``measured``. ``began`` is told the ticket and API key of each request of ``TIMED_APIS``.
    """

    def __init__(self, handler: RequestHandler, limits: Limits) -> None:
        self.handler = handler
        self.limits = limits
        self.request_bytes_max = limits.request_bytes_max
        self.memo = Memo()
        self.answered: Callable[[int, Ticket, bytes], None] = lambda *_: None
        self.held = HeldBytes(limits.queued_bytes_max)
        self.warnings = RateLimitedLog(_log)
        self.connections: set[Connection] = set()
        self.unflushed: list[Connection] = []
        self.inbox: Inbox[Connection] = Inbox(source_of=lambda connection: connection)
        self.sweeps = 0
        self._held_back: Inbox[Connection] = Inbox()
        self.timed: Callable[[float, float], None] = lambda *_: None
        self.began: Callable[[Ticket, int], None] = lambda *_: None
        self.serve = partial(
            serve,
            self.inbox,
            Connection.ask,
            time.thread_time,
            counts_more=Connection.is_erring,
        )
        self.measured: Connection | None = None
        self._queued_s = self._waited_s = 0.0
        self._full: dict[Connection, int] = {}
        self._unsent_bytes = 0
        self._tickets: dict[Ticket, InFlight] = {}
        self._last_ticket: Ticket = 0
        self._admission = Admission(limits)
        self._acceptor = Acceptor(self._admission, self._connection)
        self._sweeper: asyncio.TimerHandle | None = None

    async def open(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError if the address cannot be bound."""
        port = await self._acceptor.open(host, port, self.limits.backlog)
        self._sweep(asyncio.get_running_loop())
        return port

    def close(self) -> None:
        """Stop listening and close every connection."""
        self._acceptor.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.close()

    def limit(self, limits: Limits) -> None:
        """Apply changed limits; open connections stay."""
        if limits != self.limits:
            self.limits = self._admission.limits = limits
            self.request_bytes_max = limits.request_bytes_max
            self.held.limit = limits.queued_bytes_max
            self._acceptor.resume()

    def _connection(self, address: str) -> Connection:
        return Connection(self, address)

    # --- requests that wait

    def enqueue(self, connection: Connection) -> None:
        """Queue a connection's request."""
        if len(self.inbox) < self.limits.queued_requests_max:
            self.inbox.push(connection.queue_key, connection)
            if self.measured is None:
                self.measured, self._queued_s = connection, time.perf_counter()
            self.handler.wake()
        else:
            self._held_back.push(connection.queue_key, connection)
            connection.hold_back()

    def begin_measured(self) -> float:
        """Note that the request that is measured waits no longer; return the time in seconds."""
        began_s, self.measured = time.perf_counter(), None
        self._waited_s = began_s - self._queued_s
        return began_s

    def end_measured(self, began_s: float) -> None:
        """Report the request that is measured: the coordinator has handled it."""
        self.timed(self._waited_s, time.perf_counter() - began_s)

    def let_in(self) -> None:
        """Queue requests that were held back, as far as there is room."""
        held_back, inbox = self._held_back, self.inbox
        while held_back and len(inbox) < self.limits.queued_requests_max:
            connection = held_back.pop()
            inbox.push(connection.queue_key, connection)
            connection.no_longer_held_back()

    # --- tickets

    def draw_ticket(self) -> Ticket:
        """Return a new ticket."""
        self._last_ticket += 1
        return self._last_ticket

    def ticket_for(self, in_flight: InFlight) -> Ticket:
        """Return a new ticket for a client's request."""
        ticket = in_flight.ticket = self.draw_ticket()
        self._tickets[ticket] = in_flight
        if in_flight.api_key in TIMED_APIS:
            self.began(ticket, in_flight.api_key)
        return ticket

    def answer(self, reply: Reply) -> bool:
        """Encode a response, for :meth:`flush` to send; False if its ticket is unknown."""
        in_flight = self._tickets.pop(reply.ticket, None)
        if in_flight is None:
            return False
        correlation = int.from_bytes(in_flight.correlation, "big", signed=True)
        try:
            answer = encode_response(
                in_flight.api_key, in_flight.api_version, correlation, reply.message
            )
        except Exception:
            _log.exception("a response cannot be encoded")
            in_flight.connection.drop("its response cannot be encoded")
            return True
        if reply.lease is not None and in_flight.memo_key is not None:
            self.memo.remember(in_flight.memo_key, reply.lease, answer)
        self.answered(in_flight.api_key, reply.ticket, answer)
        connection = in_flight.connection
        if getattr(reply.message, "error_code", None):
            connection.errors = min(connection.errors + ERROR_COUNTS, ERRING_MAX)
        elif connection.errors:
            connection.errors -= 1
        connection.send(answer)
        return True

    def flush(self) -> None:
        """Send the responses of this turn, with one write for each socket."""
        unflushed, self.unflushed = self.unflushed, []
        for connection in unflushed:
            connection.flush()

    def fail(self, ticket: Ticket, why: str) -> None:
        """Close the connection of a request that cannot be answered."""
        in_flight = self._tickets.pop(ticket, None)
        if in_flight is not None:
            in_flight.connection.drop(why)

    @property
    def in_flight(self) -> int:
        """The number of requests without a response yet."""
        return len(self._tickets)

    # --- calls from connections

    def opened(self, connection: Connection) -> None:
        """Count a connection."""
        self.connections.add(connection)

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._unsent_bytes -= self._full.pop(connection, 0)
        if connection in self.connections:
            self.connections.remove(connection)
            was_full = self._admission.is_full
            self._admission.leave(connection.peer)
            if was_full:
                self._acceptor.resume()
        in_flight = connection.in_flight
        if in_flight is not None and self._tickets.pop(in_flight.ticket, None) is not None:
            self.handler.abandon(in_flight.ticket)

    def complain(self, sentence: str) -> None:
        """Log a warning, unless there were many just now."""
        self.warnings.warn(sentence)

    def too_many_unfinished(self) -> None:
        """Close connections with long incomplete frames, if all of these take too much memory."""
        self.held.close_longest(self.connections)

    def unread(self, connection: Connection) -> None:
        """Count responses that a client does not read; beyond the limit, close the largest."""
        self._count_unsent(connection)
        if self._unsent_bytes <= self.limits.queued_bytes_max:
            return
        for each in list(self._full):
            self._count_unsent(each)
        while self._unsent_bytes > self.limits.queued_bytes_max:
            most = max(self._full, key=self._full.__getitem__)
            self._unsent_bytes -= self._full.pop(most)
            most.drop("clients read too few of their responses, and this one the fewest")

    def _count_unsent(self, connection: Connection) -> None:
        before = self._full.pop(connection, 0)
        if connection.is_full:
            self._full[connection] = connection.unsent_bytes
        self._unsent_bytes += self._full.get(connection, 0) - before

    # --- idle and slow clients

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that are idle for ``connections.max.idle.ms`` or too slow."""
        idle_s = self.limits.idle_ms_max / 1000
        period_s = min(idle_s / SWEEPS_PER_IDLE_TIME, SWEEP_S_MAX) if idle_s > 0 else SWEEP_S_MAX
        silent_max = idle_s / period_s if idle_s >= 0 else float("inf")
        self.sweeps += 1
        is_crowded = self._admission.is_full
        for connection in list(self.connections):
            silent = self.sweeps - connection.seen_sweep
            if connection.is_full:
                connection.full_sweeps += 1
                if connection.full_sweeps > SLOW_READER_SWEEPS:
                    connection.drop("the client does not read its responses")
            elif connection.is_dribbling(self.sweeps):
                connection.drop("a request is not complete in time")
            elif not connection.is_busy and (
                silent > silent_max
                or (is_crowded and silent > SILENT_SWEEPS and not connection.has_asked)
            ):
                connection.close()
        self._sweeper = loop.call_later(period_s, self._sweep, loop)
