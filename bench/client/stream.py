"""One TCP connection of a load client on asyncio, from the start of connecting to its end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, cast

from actors.client.login import ANSWER_BYTES_MAX, LoginError, login_frames
from bench.client.connection_settings import DEFAULT
from protocol.client.connection import ClientConnection
from protocol.wire.frames import BadFrame, FrameError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kio.static.protocol import RequestPayload

    from bench.client.connection_settings import ConnectionSettings

_log = logging.getLogger("rollcall.load")
LENGTH_BYTES: Final = 4


class Stream(asyncio.Protocol):
    """Connects to ``address`` at once and queues what is sent before the connection is open.

    ``answered(token, response)`` is called with each answer and the token of its request;
    ``broken(tokens)`` is called once, when the connection ends or cannot be opened, with the tokens
    of unanswered requests, but not after :meth:`close`. A connection with a login is open once that
    has succeeded; one that is refused ends the connection.
    """

    def __init__(
        self,
        address: tuple[str, int],
        client_id: str,
        answered: Callable[[Any, Any], None],
        broken: Callable[[Sequence[Any]], None],
        settings: ConnectionSettings = DEFAULT,
    ) -> None:
        self.address = address
        self._tls = settings.security.tls
        login = settings.security.login
        self._login = None if login is None else login_frames(client_id, login)
        self._login_answer = b""
        self._answered = answered
        self._broken = broken
        self._closed = False
        self._transport: asyncio.Transport | None = None
        self._client = ClientConnection(client_id, settings.versions)
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
        self._write_queued()

    def _write_queued(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing() or self._login is not None:
            return
        if data := self._client.data_to_send():
            transport.write(data)

    def close(self) -> None:
        """Close at once."""
        self._closed = True
        self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def _open(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: self,
                *self.address,
                ssl=self._tls,
                server_hostname=None if self._tls is None else self.address[0],
            )
        except OSError:
            self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Log in, or send the queued requests."""
        self._transport = cast("asyncio.Transport", transport)
        if self._closed:
            self._transport.abort()
        elif self._login is not None:
            self._transport.write(next(self._login))
        else:
            self._write_queued()

    def data_received(self, data: bytes) -> None:
        """Take answers; close the connection if the bytes are not an answer."""
        if self._closed:
            return
        try:
            if self._login is not None:
                self._log_in(data)
                return
            answers = self._client.receive(data)
        except (BadFrame, FrameError, LoginError) as error:
            _log.warning("%s:%d: %s", *self.address, error)
            if self._transport is not None:
                self._transport.abort()
            return
        for token, response in answers:
            if not self._closed:
                self._answered(token, response)

    def _log_in(self, data: bytes) -> None:
        """Take answers to the login: of each request the next one is sent, or the queued ones."""
        assert self._login is not None
        assert self._transport is not None
        self._login_answer += data
        answer = self._login_answer
        size = LENGTH_BYTES + int.from_bytes(answer[:LENGTH_BYTES])
        if size > ANSWER_BYTES_MAX:
            raise BadFrame(f"an answer to the login has {size} bytes")
        if len(answer) < max(size, LENGTH_BYTES + 1):
            return
        self._login_answer = b""
        try:
            self._transport.write(self._login.send(answer))
        except StopIteration:
            self._login = None
            self._write_queued()

    def connection_lost(self, _error: Exception | None) -> None:
        """Notify the owner, unless the owner closed the connection."""
        if not self._closed:
            self._closed = True
            self._broken(self._client.ended())
