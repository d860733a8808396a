"""The generator's event loop: plain sockets on epoll, with as little overhead as possible.

The generator shares two cores with the server that it measures, so it must be far cheaper: no
transports, no futures, no decoding of frames with a fixed form. One thread, one :class:`Reactor`.
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
"""Shorter waits use select(), which has microsecond resolution; epoll has milliseconds."""
SELECTABLE: Final = 1_024
"""But select() accepts no descriptor above this, such as one opened after many others."""
SOCKET_ERROR: Final = (socket.SOL_SOCKET, socket.SO_ERROR)
ACCEPT_BACKLOG: Final = 32
"""Connections opened at a time, before the server gets time to accept them."""


class Channel:
    """One connection; ``received(data)`` is called with the bytes that arrived.

    ``broken()`` is called once when the connection ends or cannot be opened, unless it was closed
    here. While it is not set, a broken connection is an error of the benchmark.
    """

    __slots__ = ("_epoll", "_is_connected", "_socket", "_unsent", "broken", "fileno", "received")

    def __init__(self, epoll: select.epoll, connection: socket.socket, connected: bool) -> None:
        self._epoll = epoll
        self._socket = connection
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._is_connected = connected
        self._unsent = b""
        self.fileno = self._socket.fileno()
        self.received: Callable[[bytes], None] = _unexpected
        self.broken: Callable[[], None] = _broken
        wanted = select.EPOLLIN if connected else select.EPOLLIN | select.EPOLLOUT
        epoll.register(self.fileno, wanted)

    def send(self, data: bytes) -> None:
        """Send ``data``, or as much as the kernel accepts now and the rest later."""
        if self._unsent or not self._is_connected:
            self._unsent += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # the end of the connection will be read next
        if sent < len(data):
            self._unsent = data[sent:]
            self._epoll.modify(self.fileno, select.EPOLLIN | select.EPOLLOUT)

    def on_event(self, events: int) -> None:
        """Read what arrived, and send what is left to send."""
        if not self._is_connected:
            if events & ~select.EPOLLOUT or self._socket.getsockopt(*SOCKET_ERROR):
                self._break()
                return
            self._is_connected = True
            self._epoll.modify(self.fileno, select.EPOLLIN)
        if events & select.EPOLLOUT and self._unsent:
            data, self._unsent = self._unsent, b""
            self._epoll.modify(self.fileno, select.EPOLLIN)
            self.send(data)
        if events & ~select.EPOLLOUT:
            try:
                data = self._socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if data:
                self.received(data)
            else:
                self._break()

    def _break(self) -> None:
        self.close()
        self.broken()

    def close(self) -> None:
        """Close the connection."""
        if self.fileno >= 0:
            self._epoll.unregister(self.fileno)
            self._socket.close()
            self.fileno = -1


class Reactor:
    """All connections of the generator."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._channels: dict[int, Channel] = {}

    def open(self, address: tuple[str, int], count: int) -> list[Channel]:
        """Open ``count`` connections, no faster than a server accepts them."""
        opened = []
        for number in range(count):
            if number % ACCEPT_BACKLOG == ACCEPT_BACKLOG - 1:
                time.sleep(0.005)
            connection = socket.create_connection(address, timeout=10)
            opened.append(self._add(Channel(self._epoll, connection, connected=True)))
        return opened

    def connect(self, address: tuple[str, int]) -> Channel:
        """Start to open a connection without waiting for it; ``address`` is numeric IPv4."""
        connection = socket.socket(socket.AF_INET)
        connection.setblocking(False)
        connection.connect_ex(address)
        return self._add(Channel(self._epoll, connection, connected=False))

    def _add(self, channel: Channel) -> Channel:
        self._channels[channel.fileno] = channel
        return channel

    def turn(self, timeout_s: float) -> None:
        """Wait at most ``timeout_s`` for readable sockets, and let the channels read them."""
        if 0 < timeout_s < FINE_SECONDS and self._epoll.fileno() < SELECTABLE:
            select.select((self._epoll,), (), (), timeout_s)
            timeout_s = 0
        for fileno, events in self._epoll.poll(timeout_s, 1024):
            channel = self._channels[fileno]
            if channel.fileno == fileno:  # not closed by an earlier event of this turn
                channel.on_event(events)

    def close(self) -> None:
        """Close every connection."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        self._epoll.close()


def _broken() -> None:
    raise ConnectionResetError("the server closed a connection of the benchmark")


def _unexpected(_data: bytes) -> None:
    raise AssertionError("an answer to nothing")
