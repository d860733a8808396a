"""The console of a watched Kafka: its server runs in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from actors.console.hosts import KnownHosts
from actors.console.server import ConsoleServer
from actors.errors import FailureError

if TYPE_CHECKING:
    from actors.watching.console import WatchedSource

OPEN_S: Final = 30.0
CLOSE_S: Final = 5.0


class ConsoleThread:
    """Serves pages from the moment it is made until it is closed."""

    def __init__(
        self, source: WatchedSource, host: str, port: int, hosts: KnownHosts | None = None
    ) -> None:
        """Open it. Raises FailureError if the address cannot be bound; port 0 takes a free one.

        ``hosts`` are the names under which it is asked, if it has more than its machine.
        """
        self._source = source
        self._hosts = hosts
        self._address = host, port
        self._opened: Future[int] = Future()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)
        self._thread.start()
        try:
            self.port = self._opened.result(OPEN_S)
        except OSError as error:
            raise FailureError(
                f"the console cannot listen on {host}:{port}: {error.strerror or error}."
            ) from None

    def close(self) -> None:
        """Stop serving."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(CLOSE_S)
        self._source.close()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = ConsoleServer(self._source, hosts=self._hosts)
        try:
            port = await server.open(*self._address)
        except Exception as error:
            self._opened.set_exception(error)
            return
        self._opened.set_result(port)
        await self._stop.wait()
        await server.close()
