"""Accepts connections from listening sockets, no faster than a gate allows.

asyncio's servers accept every connection. Here a connection that may not be accepted yet stays in
the kernel's backlog, one that may not be accepted at all is closed at once, and an accept that
fails (no open files are left) is retried later instead of in a loop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from actors.telemetry.rate_limited_log import RateLimitedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_log = logging.getLogger("rollcall.acceptor")

ACCEPT_S: Final = 0.001
"""How long to accept connections in one turn of the event loop, at least one: accepting one at a
time would be slow when thousands reconnect, and all at once would delay all other clients."""

RETRY_S: Final = 1.0
"""How long to wait after an accept that failed, for instance because no open files are left."""


class ConnectionGate(Protocol):
    """Decides who is accepted, and when."""

    def wait_s(self) -> float:
        """Return how long to accept nothing; 0: accept the next. Called before each accept."""

    def enter(self, address: str) -> bool:
        """Count a connection from ``address``; False: close it at once."""

    def leave(self, address: str) -> None:
        """Uncount a connection that :meth:`enter` counted and that failed to open."""


class Acceptor:
    """Passes accepted connections to asyncio protocols."""

    def __init__(
        self, gate: ConnectionGate, protocol: Callable[[str], asyncio.BaseProtocol]
    ) -> None:
        """``protocol`` creates the protocol of a connection from its address."""
        self._gate = gate
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._sockets: Sequence[socket.socket] = ()
        self._is_closed = False
        self._connecting: set[asyncio.Task[None]] = set()
        self._resume: asyncio.TimerHandle | None = None
        self._warnings = RateLimitedLog(_log)

    async def open(self, host: str, port: int, backlog: int) -> int:
        """Listen; return the port. Raises OSError if the address cannot be bound."""
        self._sockets = await listening_sockets(host, port, backlog)
        self._listen()
        return int(self._sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop listening; open connections stay."""
        self.pause()
        for listening in self._sockets:
            listening.close()
        self._sockets = ()
        self._is_closed = True

    def pause(self) -> None:
        """Accept nothing until :meth:`resume`."""
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        for listening in self._sockets:
            self._loop.remove_reader(listening)

    def resume(self) -> None:
        """Ask the gate again now."""
        if self._resume is not None:
            self._resume.cancel()
            self._listen()

    def _listen(self) -> None:
        self._resume = None
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _wait(self, wait_s: float) -> None:
        self.pause()
        self._resume = self._loop.call_later(wait_s, self._listen)

    def _accept(self, listening: socket.socket) -> None:
        until_s = time.perf_counter() + ACCEPT_S
        while True:
            if wait_s := self._gate.wait_s():
                self._wait(wait_s)
                return
            try:
                accepted, name = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._warnings.warn(f"cannot accept connections: {error.strerror}; trying again")
                self._wait(RETRY_S)
                return
            address = str(name[0])
            if self._gate.enter(address):
                accepted.setblocking(False)
                task = self._loop.create_task(self._connect(accepted, address))
                self._connecting.add(task)
                task.add_done_callback(self._connecting.discard)
            else:
                accepted.close()
            if time.perf_counter() >= until_s:
                return  # the event loop calls again after what else is ready

    async def _connect(self, accepted: socket.socket, address: str) -> None:
        made = self._protocol(address)
        try:
            transport, _ = await self._loop.connect_accepted_socket(lambda: made, accepted)
        except OSError:
            self._gate.leave(address)
            accepted.close()
        else:
            if self._is_closed:
                transport.abort()


async def listening_sockets(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Bind and listen at every address of ``host``; raises OSError if one cannot be bound."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            sockets.append(listening)
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                with suppress(OSError):
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if not port and sockets:  # every address has the port that the first one got
                listening.bind((address[0], sockets[0].getsockname()[1], *address[2:]))
            else:
                listening.bind(address)
            listening.listen(backlog)
    except BaseException:
        for listening in sockets:
            listening.close()
        raise
    return sockets
