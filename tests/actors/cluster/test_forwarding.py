"""Requests on their way to another node share calls."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from actors.cluster import forwarding
from actors.cluster.forwarding import Answers, ForwardQueue
from protocol.groups.effects import Request
from tests.waiting import WITHIN_S


class Node:
    """The other node: answers a call when it may."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []
        self.may_answer = asyncio.Event()
        self.error: Exception | None = None
        self.is_reached = True

    async def carry(self, requests: Sequence[Request]) -> Answers | None:
        self.calls.append(list(requests))
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return cast("Answers", [f"answer {each}" for each in requests]) if self.is_reached else None


def asked(queue: ForwardQueue, requests: Sequence[str]) -> list[asyncio.Task[Any]]:
    return [asyncio.ensure_future(queue.ask(cast("Request", each))) for each in requests]


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_comes_in_one_turn_goes_in_one_call_and_each_gets_its_answer() -> None:
    async def test() -> None:
        node = Node()
        node.may_answer.set()
        tasks = asked(ForwardQueue(node.carry), ["a", "b", "c"])
        assert await asyncio.gather(*tasks) == ["answer a", "answer b", "answer c"]
        assert node.calls == [["a", "b", "c"]]

    asyncio.run(test())


def test_calls_are_few_and_what_comes_meanwhile_shares_the_next_one() -> None:
    async def test() -> None:
        node = Node()
        queue = ForwardQueue(node.carry)
        tasks = []
        for number in range(100):
            tasks += asked(queue, [str(number)])
            await turns()
        assert len(node.calls) == forwarding.CALLS_MAX
        node.may_answer.set()
        assert await asyncio.gather(*tasks) == [f"answer {number}" for number in range(100)]
        assert len(node.calls) == forwarding.CALLS_MAX + 2
        assert max(map(len, node.calls)) == forwarding.REQUESTS_MAX

    asyncio.run(test())


def test_all_of_a_call_go_unanswered_when_the_node_is_not_reached() -> None:
    async def test() -> None:
        for error, is_reached in ((RuntimeError("broken"), True), (None, False)):
            node = Node()
            node.error, node.is_reached = error, is_reached
            node.may_answer.set()
            queue = ForwardQueue(node.carry)
            assert await asyncio.gather(*asked(queue, ["a", "b"])) == [None, None]
            node.error, node.is_reached = None, True
            assert await asyncio.gather(*asked(queue, ["c"])) == ["answer c"]

    asyncio.run(test())


def test_what_waits_is_carried_although_the_calls_before_it_failed() -> None:
    async def test() -> None:
        node = Node()
        node.error = TypeError("cannot be written")
        queue = ForwardQueue(node.carry)
        tasks = []
        for number in range(10):
            tasks += asked(queue, [str(number)])
            await turns()
        assert len(node.calls) == forwarding.CALLS_MAX
        node.may_answer.set()
        assert await asyncio.wait_for(asyncio.gather(*tasks), WITHIN_S) == [None] * 10

    asyncio.run(test())


def test_an_answer_that_is_missing_is_none() -> None:
    async def test() -> None:
        async def carry(requests: Sequence[Request]) -> Answers | None:
            return cast("Answers", ["one"])

        queue = ForwardQueue(carry)
        assert await asyncio.gather(*asked(queue, ["a", "b"])) == ["one", None]

    asyncio.run(test())
