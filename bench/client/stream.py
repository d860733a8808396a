"""One TCP connection of a load client on asyncio, from the start of connecting to its end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, cast

from protocol.client.connection import ClientConnection
from protocol.client.versions import newest
from protocol.wire.frames import BadFrame, FrameError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kio.static.protocol import RequestPayload

_log = logging.getLogger("rollcall.load")
VERSIONS: Final = newest()


class Stream(asyncio.Protocol):
    """Connects to ``address`` at once and queues what is sent before the connection is open.

    ``answered(token, response)`` is called with each answer and the token of its request;
    ``broken(tokens)`` is called once, when the connection ends or cannot be opened, with the tokens
    of unanswered requests, but not after :meth:`close`. ``versions`` are those of the APIs.
    """

    def __init__(
        self,
        address: tuple[str, int],
        client_id: str,
        answered: Callable[[Any, Any], None],
        broken: Callable[[Sequence[Any]], None],
        versions: Mapping[int, int] = VERSIONS,
    ) -> None:
        self.address = address
        self._answered = answered
        self._broken = broken
        self._closed = False
        self._transport: asyncio.Transport | None = None
        self._client = ClientConnection(client_id, versions)
        self._opening = asyncio.get_running_loop().create_task(self._open())

    @property
    def in_flight(self) -> int:
        """The number of requests without an answer yet."""
        return self._client.in_flight

    def send(self, message: RequestPayload, token: Any, client_id: str | None = None) -> None:
        """Send a request now, or as soon as the connection is open.

        Requests sent after the connection has ended, but before that is noticed, are lost:
        ``broken`` follows.
        """
        self._client.ask(message, token, client_id)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._client.data_to_send())

    def close(self) -> None:
        """Close at once."""
        self._closed = True
        self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def _open(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, *self.address)
        except OSError:
            self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the queued requests."""
        self._transport = cast("asyncio.Transport", transport)
        if self._closed:
            self._transport.abort()
        elif data := self._client.data_to_send():
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        """Take answers; close the connection if the bytes are not an answer."""
        if self._closed:
            return
        try:
            answers = self._client.receive(data)
        except (BadFrame, FrameError) as error:
            _log.warning("%s:%d: %s", *self.address, error)
            if self._transport is not None:
                self._transport.abort()
            return
        for token, response in answers:
            if not self._closed:
                self._answered(token, response)

    def connection_lost(self, _error: Exception | None) -> None:
        """Notify the owner, unless the owner closed the connection."""
        if not self._closed:
            self._closed = True
            self._broken(self._client.ended())
