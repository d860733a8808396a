"""The questions that the console asks coordinators, many times as often as it does.

Browsers on the same machine slow coordinators down by more than the console asks of them. So its
questions are also asked without a browser: by the console's own code, whose clock runs faster, so
that what they cost stands out. The page of the cluster is not among them: it comes from the
controller, which asks coordinators for it anyway.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

import uvloop

from actors.clock import boot_ms
from actors.cluster.spec import Address, ClusterSpec, on_one_host
from actors.console.hub import Hub
from actors.console.source import SourceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from multiprocessing.connection import Connection

    from actors.console.source import GroupDetail, GroupList

TIMES: Final = 10
"""How much faster the clock runs."""


def ask_often(
    addresses: Sequence[tuple[str, int]], group_ids: Sequence[str], pipe: Connection
) -> None:
    """Ask for the list and for these groups until the process ends.

    Say on the pipe when that has begun, and answer each message with how often it was asked so far.
    """
    uvloop.run(_ask(addresses, group_ids, pipe))


async def _ask(
    addresses: Sequence[tuple[str, int]], group_ids: Sequence[str], pipe: Connection
) -> None:
    # It imports Ray, which a benchmark's own process may only do once it has Ray's token.
    from actors.console.rollcall import RollcallSource

    class CountedSource(RollcallSource):
        """The cluster, and how often the hub has asked for its groups or for one of them."""

        asked = 0

        async def groups(self) -> GroupList:
            self.asked += 1
            return await super().groups()

        async def group(self, group_id: str) -> GroupDetail | None:
            self.asked += 1
            return await super().group(group_id)

    source = CountedSource(_spec(addresses), _NoController(), _fast_ms, may_act=False)
    hub = Hub(source, _fast_ms, _fast_ms)
    pages: list[Callable[[], Awaitable[object]]] = [hub.groups]
    pages += [lambda group_id=each: hub.group(group_id) for each in group_ids]  # type: ignore[misc]
    for page in pages:
        await page()

    def answer() -> None:
        pipe.recv()
        pipe.send(source.asked)

    pipe.send(source.asked)
    asyncio.get_running_loop().add_reader(pipe.fileno(), answer)
    await asyncio.gather(*map(_look, pages))


async def _look(page: Callable[[], Awaitable[object]]) -> NoReturn:
    """Look as often as the stream of a page does."""
    from actors.console.streams import LOOK_S

    while True:
        with suppress(SourceError):
            await page()
        await asyncio.sleep(LOOK_S / TIMES)


def _fast_ms() -> int:
    return TIMES * boot_ms()


def _spec(addresses: Sequence[tuple[str, int]]) -> ClusterSpec:
    """Return what the source needs to know of a cluster on this host."""
    host = addresses[0][0]
    return ClusterSpec(
        cluster_id="",
        places=on_one_host(host, [port for _, port in addresses]),
        console=Address(host=host, port=0),
        data_dir="",
        overrides={},
        workers=0,
        replicas_wanted=len(addresses),  # any of them may lead
    )


class _NoController:
    """There is no controller to ask: coordinators of a benchmark do not move."""

    async def ask(self, name: str, method: str, *_arguments: object, wait_s: float = 0) -> Any:
        raise TimeoutError(f"{name} is not asked for {method} within {wait_s} s")
