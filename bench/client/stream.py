"""One TCP connection of a load client, from the wish to connect to its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

from protocol.wire.frames import FrameBuffer

if TYPE_CHECKING:
    from collections.abc import Callable

RESPONSE_BYTES_MAX: Final = 1 << 30


class Stream(asyncio.Protocol):
    """Connects to ``address`` at once and keeps what is sent before the connection is there.

    ``answered(frame)`` is called with each response, without its length; ``broken(stream)`` once,
    when the connection ends or cannot be had, but not after :meth:`close`.
    """

    def __init__(
        self,
        address: tuple[str, int],
        answered: Callable[[bytes], None],
        broken: Callable[[Stream], None],
    ) -> None:
        self.address = address
        self._answered = answered
        self._broken = broken
        self._closed = False
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._frames = FrameBuffer(RESPONSE_BYTES_MAX)
        self._opening = asyncio.get_running_loop().create_task(self._open())

    def send(self, frame: bytes) -> None:
        """Send ``frame`` now, or as soon as the connection is there.

        What is sent between the connection's end and the news of it is lost: ``broken`` follows.
        """
        if self._transport is None:
            self._unsent.append(frame)
        elif not self._transport.is_closing():
            self._transport.write(frame)

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
        """Send what waited."""
        self._transport = cast("asyncio.Transport", transport)
        if self._closed:
            self._transport.abort()
        elif self._unsent:
            self._transport.write(b"".join(self._unsent))
            self._unsent.clear()

    def data_received(self, data: bytes) -> None:
        """Cut what came into responses."""
        for frame in self._frames.feed(data):
            if not self._closed:
                self._answered(frame)

    def connection_lost(self, _error: Exception | None) -> None:
        """Tell the owner, unless it was the owner who closed."""
        if not self._closed:
            self._closed = True
            self._broken(self)
