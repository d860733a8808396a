"""Requests of clients on their way to another node, several in one call.

A call between two actors costs each of them a good part of a millisecond, and clients decide how
many requests are forwarded. So at most :data:`CALLS_MAX` calls to a node are under way; what comes
meanwhile goes together in the next one. Each client has one request in flight at most, so no more
wait here than there are connections.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from actors.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kio.static.protocol import Entity

    from protocol.groups.effects import Request

Answers = list["Entity | None"]

_log = logging.getLogger("rollcall.peers")

CALLS_MAX: Final = 2
"""Calls to one node that are under way at a time: one request that waits does not hold up all."""

REQUESTS_MAX: Final = 64
"""Requests in one call."""


class ForwardQueue:
    """The requests that wait to be carried to one node."""

    def __init__(self, carry: Callable[[Sequence[Request]], Awaitable[Answers | None]]) -> None:
        """``carry`` gives an answer for each request in order, or None: the node is not reached."""
        self._carry = carry
        self._calls = 0
        self._tasks = Tasks(_log)
        self._waiting: deque[tuple[Request, asyncio.Future[Entity | None]]] = deque()

    async def ask(self, request: Request) -> Entity | None:
        """Return the node's answer; None when it has none or was not reached."""
        answer: asyncio.Future[Entity | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._calls < CALLS_MAX:
            self._calls += 1
            self._tasks.spawn(self._call())  # begins after this turn: its other requests come along
        return await answer

    async def _call(self) -> None:
        """Carry what waits until nothing does."""
        try:
            while self._waiting:
                count = min(len(self._waiting), REQUESTS_MAX)
                await self._carry_batch([self._waiting.popleft() for _ in range(count)])
        finally:
            self._calls -= 1

    async def _carry_batch(
        self, batch: Sequence[tuple[Request, asyncio.Future[Entity | None]]]
    ) -> None:
        answers: Answers = []
        try:
            answers = await self._carry([request for request, _ in batch]) or []
        except Exception:
            _log.exception("requests cannot be forwarded")
        finally:
            answers += [None] * (len(batch) - len(answers))
            for (_, future), answer in zip(batch, answers, strict=False):
                if not future.done():
                    future.set_result(answer)
