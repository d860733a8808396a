"""Servers that do nothing: they answer each frame with its correlation id only.

The generator of ``rollcall bench hostile`` first sends to them. Its effect on other clients of a
cluster on the same machine is then caused by the machine, not by the cluster.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

from bench.load.hostile_frames import LENGTH
from bench.load.side_process import side_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection as Pipe

HOST: Final = "127.0.0.1"
FRAME_BYTES_MAX: Final = 100 << 20
CORRELATION: Final = slice(8, 12)
"""The size of a frame including its length prefix."""

ANSWER_LENGTH: Final = LENGTH.pack(4)


class Sink(asyncio.Protocol):
    """One connection: stores no frame, only how many of its bytes are still to come."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._skipped = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the connection."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer the frames that have started; close on a length that no server accepts."""
        assert self._transport is not None
        at = min(self._skipped, len(data))
        self._skipped -= at
        data, at = (self._head + data, 0) if self._head else (data, at)
        answers = []
        while len(data) - at >= CORRELATION.stop:
            size = LENGTH.unpack_from(data, at)[0]
            if not CORRELATION.stop <= size + LENGTH.size <= FRAME_BYTES_MAX:
                self._transport.abort()
                return
            answers.append(ANSWER_LENGTH + data[at + CORRELATION.start : at + CORRELATION.stop])
            end = at + LENGTH.size + size
            self._skipped = max(end - len(data), 0)
            at = min(end, len(data))
        self._head = data[at:]
        if answers:
            self._transport.write(b"".join(answers))

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read."""
        assert self._transport is not None
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume reading."""
        assert self._transport is not None
        self._transport.resume_reading()


@contextmanager
def running_sinks(count: int) -> Iterator[list[tuple[str, int]]]:
    """Run this many sinks in their own process; yield their addresses."""
    with side_process(_serve, count) as pipe:
        yield pipe.recv()


def _serve(count: int, pipe: Pipe) -> None:
    asyncio.run(_listen(count, pipe))


async def _listen(count: int, pipe: Pipe) -> None:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Sink, HOST, 0, backlog=4_096) for _ in range(count)]
    pipe.send("ready")
    pipe.send([server.sockets[0].getsockname() for server in servers])
    await asyncio.gather(*(server.serve_forever() for server in servers))
