"""What a coordinator tells of its event loop."""

import asyncio
import time

from actors.coordinator.loop_watch import LoopWatch
from tests.waiting import WITHIN_S, until_async


def test_a_loop_that_was_held_says_for_how_long() -> None:
    async def test() -> None:
        watch = LoopWatch(asyncio.get_running_loop(), 1)
        began_s = time.monotonic()
        while time.monotonic() - began_s < 0.03:
            pass  # this is what holds the loop

        async def is_noticed() -> bool:
            return watch.gauges()["event-loop-held-time-ms-max"] >= 25

        await until_async(is_noticed, WITHIN_S, "it was noticed")
        watch.close()

    asyncio.run(test())


def test_nobody_looks_unless_asked_to() -> None:
    async def test() -> None:
        watch = LoopWatch(asyncio.get_running_loop(), 0)
        assert watch.gauges() == {}
        watch.close()

    asyncio.run(test())
