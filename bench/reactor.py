"""The generator's event loop: plain sockets on epoll, and nothing between them and the numbers.

The generator shares two cores with the server that it measures, so it must be far cheaper: no
transports, no futures, no decoding of what has a fixed form. One thread, one :class:`Reactor`.
"""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

RECEIVE_BYTES: Final = 1 << 18
FINE_SECONDS: Final = 0.01
"""Shorter waits go through select(), which counts in microseconds; epoll counts in milliseconds."""
ACCEPT_BACKLOG: Final = 32
"""Connections opened in one go before the server gets a moment to accept them."""


class Channel:
    """One connection; ``received(data)`` is called with whatever bytes came."""

    __slots__ = ("_epoll", "_socket", "_unsent", "fileno", "received")

    def __init__(self, epoll: select.epoll, address: tuple[str, int]) -> None:
        self._epoll = epoll
        self._socket = socket.create_connection(address, timeout=10)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._unsent = b""
        self.fileno = self._socket.fileno()
        self.received: Callable[[bytes], None] = _unexpected
        epoll.register(self.fileno, select.EPOLLIN)

    def send(self, data: bytes) -> None:
        """Send ``data``, or as much as the kernel takes now and the rest when it can."""
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            self._unsent = data[sent:]
            self._epoll.modify(self.fileno, select.EPOLLIN | select.EPOLLOUT)

    def on_event(self, events: int) -> None:
        """Read what came, and send on what is left to send."""
        if events & select.EPOLLOUT and self._unsent:
            data, self._unsent = self._unsent, b""
            self._epoll.modify(self.fileno, select.EPOLLIN)
            self.send(data)
        if events & ~select.EPOLLOUT:
            data = self._socket.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError("the server closed a connection of the benchmark")
            self.received(data)

    def close(self) -> None:
        """Close the connection."""
        self._epoll.unregister(self.fileno)
        self._socket.close()


class Reactor:
    """All connections of the generator."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._channels: dict[int, Channel] = {}

    def open(self, address: tuple[str, int], count: int) -> list[Channel]:
        """Open ``count`` connections, not faster than a server accepts them."""
        opened = []
        for number in range(count):
            if number % ACCEPT_BACKLOG == ACCEPT_BACKLOG - 1:
                time.sleep(0.005)
            channel = Channel(self._epoll, address)
            self._channels[channel.fileno] = channel
            opened.append(channel)
        return opened

    def turn(self, timeout_s: float) -> None:
        """Wait for something to read, at most ``timeout_s``, and let the channels read it."""
        if 0 < timeout_s < FINE_SECONDS:
            select.select((self._epoll,), (), (), timeout_s)
            timeout_s = 0
        for fileno, events in self._epoll.poll(timeout_s, 1024):
            self._channels[fileno].on_event(events)

    def close(self) -> None:
        """Close every connection."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        self._epoll.close()


def _unexpected(_data: bytes) -> None:
    raise AssertionError("an answer to nothing")
