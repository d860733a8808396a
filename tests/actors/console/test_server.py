"""The console's server over real sockets: what it lets clients take."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

import pytest

from actors.console import hub as hub_module
from actors.console import server as server_module
from actors.console.server import ConsoleServer
from actors.console.source import GroupList
from tests.actors.console.sources import FakeSource, group
from tests.waiting import WITHIN_S, patient, until_async

HOST = "127.0.0.1"


async def get(port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        return await asyncio.wait_for(reader.read(), WITHIN_S)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def with_server(
    test: Callable[[ConsoleServer, int, FakeSource], Awaitable[None]], request_s: float = 600
) -> None:
    async def run() -> None:
        source = FakeSource()
        server = ConsoleServer(source, request_s)
        port = await server.open(HOST, 0)
        try:
            await test(server, port, source)
        finally:
            await server.close()

    asyncio.run(asyncio.wait_for(run(), patient(120)))


def test_it_answers_and_gives_up_the_place_of_a_connection() -> None:
    async def test(server: ConsoleServer, port: int, source: FakeSource) -> None:
        answers = await asyncio.gather(*(get(port, "/metrics") for _ in range(100)))
        assert all(b"200 OK" in answer and b"x 1" in answer for answer in answers)
        assert len(source.asked) < 10
        assert b"404" in (await get(port, "/no")).splitlines()[0]

        async def all_are_gone() -> bool:
            return server.limits.connections == 0

        await until_async(all_are_gone, WITHIN_S, "all connections are gone")

    with_server(test)


def test_a_taken_port_is_an_error() -> None:
    async def test() -> None:
        with socket.create_server((HOST, 0)) as taken, pytest.raises(OSError):
            await ConsoleServer(FakeSource()).open(HOST, taken.getsockname()[1])

    asyncio.run(test())


@pytest.mark.parametrize(
    "said", [b"", b"GET / HT", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\nGET"]
)
def test_a_client_that_does_not_end_its_request_is_dropped(said: bytes) -> None:
    async def test(_: ConsoleServer, port: int, __: FakeSource) -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(said)
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), WITHIN_S)
        writer.close()

    with_server(test, request_s=0.2)


def test_one_connection_too_many_takes_the_place_of_the_one_that_is_silent_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS_MAX", 5)

    async def test(server: ConsoleServer, port: int, _: FakeSource) -> None:
        silent = [await asyncio.open_connection(HOST, port) for _ in range(5)]

        async def all_have_places() -> bool:
            return server.limits.connections == 5

        await until_async(all_have_places, WITHIN_S, "all places are taken")
        assert b"200 OK" in await get(port, "/metrics")
        assert await asyncio.wait_for(silent[0][0].read(), WITHIN_S) == b""
        assert not any(reader.at_eof() for reader, _ in silent[1:])
        for _, writer in silent:
            writer.close()
        await until_async(lambda: _is_empty(server), WITHIN_S, "all connections are gone")

    with_server(test)


def test_one_connection_too_many_is_closed_while_all_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS_MAX", 3)

    async def test(server: ConsoleServer, port: int, _: FakeSource) -> None:
        streams = [await asyncio.open_connection(HOST, port) for _ in range(3)]
        for reader, writer in streams:
            writer.write(b"GET /events?page=cluster HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"text/event-stream" in await reader.readuntil(b"\r\n\r\n")
        assert await get(port, "/metrics") == b""
        streams[0][1].close()

        async def is_answered() -> bool:
            return b"200 OK" in await get(port, "/metrics")

        await until_async(is_answered, WITHIN_S, "a place is free again")
        for _, writer in streams:
            writer.close()
        await until_async(lambda: _is_empty(server), WITHIN_S, "all connections are gone")

    with_server(test)


async def _is_empty(server: ConsoleServer) -> bool:
    return server.limits.connections == 0 and not server.limits.waiting


def test_a_browser_that_does_not_read_its_stream_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing piles up for it: what it did not read is in two buffers with bounds."""
    monkeypatch.setattr(hub_module, "PACE_MS", 1)
    monkeypatch.setattr(hub_module, "SLOW_PACE_MS", 1)

    async def test(server: ConsoleServer, port: int, source: FakeSource) -> None:
        streams = server.pages.streams
        streams._pace_s = 0
        asleep = socket.socket()
        asleep.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        asleep.setblocking(False)
        await asyncio.get_running_loop().sock_connect(asleep, (HOST, port))
        await asyncio.get_running_loop().sock_sendall(
            asleep, b"GET /events?page=groups HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        numbers = iter(range(10**9))

        async def is_dropped() -> bool:
            number = next(numbers)
            source.list = GroupList(groups=[group(f"g-{number}-{n}") for n in range(50)])
            return number > 10 and streams.count == 0 and server.limits.connections == 0

        await until_async(is_dropped, WITHIN_S, "it is dropped")
        asleep.close()
        assert b"200 OK" in await get(port, "/metrics")

    with_server(test, request_s=0.5)


def test_a_stream_ends_when_its_browser_goes_and_when_the_console_closes() -> None:
    async def test(server: ConsoleServer, port: int, _: FakeSource) -> None:
        streams = server.pages.streams
        for number in range(2):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(b"GET /events?page=cluster HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"text/event-stream" in await reader.readuntil(b"\r\n\r\n")
            assert streams.count == 1
            if number == 0:
                writer.close()

                async def is_gone() -> bool:
                    return streams.count == 0

                await until_async(is_gone, WITHIN_S, "the stream has ended")
        await server.close()
        await asyncio.wait_for(reader.read(), WITHIN_S)
        writer.close()

    with_server(test)
