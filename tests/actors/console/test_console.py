"""The console over plain HTTP: what it answers, and how much it lets clients take."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from actors.console import page
from actors.console.page import CONNECTIONS_MAX, Console
from tests.waiting import WITHIN_S, until_async

HOST = "127.0.0.1"
STATUS = {"cluster_id": "c", "bootstrap": "b", "coordinators": []}


class Asked:
    """A status that is given when the test says so."""

    def __init__(self) -> None:
        self.count = 0
        self.may_answer = asyncio.Event()

    async def status(self) -> Mapping[str, Any]:
        self.count += 1
        await self.may_answer.wait()
        return STATUS


async def opened(console: Console) -> int:
    await console.open(HOST, 0)
    assert console._server is not None
    return int(console._server.sockets[0].getsockname()[1])


async def get(port: int, path: str = "/") -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        return await asyncio.wait_for(reader.read(), WITHIN_S)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def test_all_who_ask_at_the_same_time_share_one_status() -> None:
    async def test() -> None:
        asked = Asked()
        console = Console(asked.status)
        port = await opened(console)
        asking = [asyncio.create_task(get(port, "/status.json")) for _ in range(10)]

        async def all_have_asked() -> bool:
            return console._connections == 10 and asked.count > 0

        await until_async(all_have_asked, WITHIN_S, "all have asked")
        await asyncio.sleep(0)
        asked.may_answer.set()
        assert all(b"200 OK" in answer for answer in await asyncio.gather(*asking))
        assert asked.count <= 2
        console.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_silent_clients_are_few_and_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    patience: list[asyncio.Timeout] = []

    def timeout(delay_s: float) -> asyncio.Timeout:
        patience.append(asyncio.Timeout(asyncio.get_running_loop().time() + delay_s))
        return patience[-1]

    monkeypatch.setattr(page, "REQUEST_S", 600)
    monkeypatch.setattr(page.asyncio, "timeout", timeout)  # type: ignore[attr-defined]

    async def test() -> None:
        asked = Asked()
        asked.may_answer.set()
        console = Console(asked.status)
        port = await opened(console)
        silent = [await asyncio.open_connection(HOST, port) for _ in range(CONNECTIONS_MAX)]

        async def all_are_served() -> bool:
            return console._connections == CONNECTIONS_MAX

        await until_async(all_are_served, WITHIN_S, "all places are taken")
        assert await get(port) == b""
        for each in patience:
            if not each.expired():
                each.reschedule(asyncio.get_running_loop().time())
        for reader, _ in silent:
            assert await asyncio.wait_for(reader.read(), WITHIN_S) == b""
        assert b"200 OK" in await get(port)
        console.close()
        for _, writer in silent:
            writer.close()

    asyncio.run(asyncio.wait_for(test(), 60))
