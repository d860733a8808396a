"""How many connections are accepted before other clients are served."""

import asyncio
import contextlib
import itertools
import socket
from types import SimpleNamespace

import pytest

from actors.serving import acceptor
from actors.serving.acceptor import ACCEPT_S
from tests.actors.serving.test_listener import listening, run

CLIENTS = 192


@pytest.mark.parametrize("in_one_turn", [1, 16])
def test_connections_are_accepted_for_a_limited_time_in_one_turn_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, in_one_turn: int
) -> None:
    clock_s = itertools.count(step=ACCEPT_S / in_one_turn)
    monkeypatch.setattr(acceptor, "time", SimpleNamespace(perf_counter=lambda: next(clock_s)))

    async def test() -> None:
        async with listening() as (handler, port):
            accepted = handler.listener.connections
            with contextlib.ExitStack() as stack:
                for _ in range(CLIENTS):  # the system takes them; the loop has no turn meanwhile
                    stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                before = 0
                for _ in range(CLIENTS // in_one_turn + 10):
                    await asyncio.sleep(0)
                    assert len(accepted) - before <= in_one_turn
                    before = len(accepted)
                assert before == CLIENTS

    run(test)
