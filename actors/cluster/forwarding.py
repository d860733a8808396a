"""Forwards clients' requests to another node, several in one call.

A call between two actors costs each of them a large part of a millisecond, and clients decide how
many requests are forwarded. So at most :data:`CALLS_MAX` calls to a node are in flight; requests
that arrive meanwhile share the next call. Each client has at most one request in flight, so the
queue is bounded by the number of connections.
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
"""Calls to one node in flight at a time: one slow request does not delay all others."""

REQUESTS_MAX: Final = 64
"""Requests in one call."""


class ForwardQueue:
    """The requests that wait to be forwarded to one node."""

    def __init__(self, carry: Callable[[Sequence[Request]], Awaitable[Answers | None]]) -> None:
        """``carry`` returns the responses in order, or None if the node was not reached."""
        self._carry = carry
        self._calls = 0
        self._tasks = Tasks(_log)
        self._waiting: deque[tuple[Request, asyncio.Future[Entity | None]]] = deque()

    async def ask(self, request: Request) -> Entity | None:
        """Return the node's response; None if it has none or was not reached."""
        answer: asyncio.Future[Entity | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._calls < CALLS_MAX:
            self._calls += 1
            self._tasks.spawn(self._call())  # starts after this turn, with its other requests
        return await answer

    async def _call(self) -> None:
        """Forward batches until the queue is empty."""
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
            _log.exception("could not forward requests")
        finally:
            answers += [None] * (len(batch) - len(answers))
            for (_, future), answer in zip(batch, answers, strict=False):
                if not future.done():
                    future.set_result(answer)
