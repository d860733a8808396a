"""The console's HTTP server: uvicorn, with bounds on what its clients may take."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from actors.console.app import ConsolePages
from actors.console.hosts import KnownHosts
from actors.console.hub import Hub

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from actors.console.source import ConsoleSource

_log = logging.getLogger("rollcall.console")

REQUEST_S: Final = 10.0
"""How long a client may take to send the head of a request, and to read a part of a response."""

REQUEST_BYTES_MAX: Final = 16_384
CONNECTIONS_MAX: Final = 256
"""The connections that are served at a time.

For one more, that is closed which has sent no request for the longest; if all have, the new one.
"""

IDLE_S: Final = 10
STOP_S: Final = 2
ABORT: Final = "rollcall.abort"


class BoundedProtocol(H11Protocol):
    """A connection that is closed if its client is too slow, or one too many."""

    limits: ConsoleLimits
    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as asyncio calls it
        """Take a connection, or close it."""
        if not self.limits.take_place():
            transport.abort()
            return
        super().connection_made(transport)
        app = self.app
        self._await_request()

        async def with_abort(scope: Scope, receive: Receive, send: Send) -> None:
            self._stop_waiting()
            await app({**scope, ABORT: transport.abort}, receive, send)

        self.app = with_abort

    def on_response_complete(self) -> None:
        """Wait for the next request of the connection, for a while."""
        super().on_response_complete()
        self._stop_waiting()
        if not self.transport.is_closing():
            self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give up the connection's place."""
        if self._slow is None:
            return
        self._stop_waiting()
        self.limits.connections -= 1
        super().connection_lost(exc)

    def _await_request(self) -> None:
        self._slow = self.loop.call_later(self.limits.request_s, self.transport.abort)
        self.limits.waiting[self.transport] = None

    def _stop_waiting(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
        self.limits.waiting.pop(self.transport, None)


class ConsoleLimits:
    """What the clients of one server take.

    ``waiting`` are the connections without a request, those first that have waited longest.
    """

    def __init__(self, request_s: float = REQUEST_S) -> None:
        self.connections = 0
        self.waiting: dict[asyncio.Transport, None] = {}
        self.request_s = request_s

    def take_place(self) -> bool:
        """Count one more connection, if there is room or one without a request makes room."""
        if self.connections >= CONNECTIONS_MAX:
            silent = next(iter(self.waiting), None)
            if silent is None:
                return False
            del self.waiting[silent]
            silent.abort()  # its place is counted until its end, in the event loop's next turn
        self.connections += 1
        return True


class Bounded:
    """Aborts the connection of a client that does not read its response."""

    def __init__(self, app: ASGIApp, limits: ConsoleLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return

        async def bounded(message: Message) -> None:
            try:
                async with asyncio.timeout(self._limits.request_s):
                    await send(message)
            except TimeoutError:
                scope[ABORT]()

        await self._app(scope, receive, bounded)


class ConsoleServer:
    """Serves the pages of one source."""

    def __init__(
        self,
        source: ConsoleSource,
        request_s: float = REQUEST_S,
        hosts: KnownHosts | None = None,
    ) -> None:
        """``hosts`` are the names under which it is asked, if it has more than its machine."""
        self.limits = ConsoleLimits(request_s)
        self._hosts = hosts or KnownHosts()
        self.pages = ConsolePages(Hub(source), self._hosts)
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def open(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError if the address cannot be bound."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, *_, address = found[0]
        listening = socket.create_server(address[:2], family=family, backlog=128)
        protocol = type("ConsoleProtocol", (BoundedProtocol,), {"limits": self.limits})
        config = uvicorn.Config(
            Bounded(self.pages.app(), self.limits),
            http=protocol,
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=REQUEST_BYTES_MAX,
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=STOP_S,
        )
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve([listening]))
        threading.Thread(target=self._hosts.learn, name="console-hosts", daemon=True).start()
        bound: int = listening.getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop; streams are ended, other responses may take a moment."""
        self.pages.streams.close()
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            with contextlib.suppress(asyncio.CancelledError):
                await self._serving


class _Server(uvicorn.Server):
    """A server that leaves signals to its process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """Take no signal."""
        yield
