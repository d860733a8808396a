"""A load that can be changed while it runs: members that join later, static ones that restart.

The members live in a thread of their own, whose event loop is theirs alone; whoever drives a drill
asks from another. The engine is that of :mod:`bench.load`.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import defaultdict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self, TypeVar

import uvloop

from bench.load import FAREWELL_SECONDS, Driver, Lookups, now_ms
from failover.verdict import Story
from protocol.members.classic import ClassicMember, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bench.load import Load
    from protocol.members.classic import MemberConfig

T = TypeVar("T")

STARTS_PER_TURN = 50
"""Members that start at once before the others and the sockets get a turn."""


class LiveLoad:
    """Runs the members of ``load`` until it is left; its ``until_ms`` is not looked at."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._rng = random.Random(load.seed)
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="load", daemon=True)
        self._lookups: Lookups | None = None
        self._drivers: list[Driver] = []
        self._ended: list[Driver] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self.join(self._load.members)
        return self

    def __exit__(self, *_error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def join(self, configs: Sequence[MemberConfig]) -> None:
        """Start more members; returns when all have begun, not when they are in."""
        asyncio.run_coroutine_threadsafe(self._start(configs), self._loop).result()

    def restart_static(self, share: float) -> int:
        """End this share of the static members as a kill does, start them anew; say how many."""

        def end() -> list[MemberConfig]:
            static = [each for each in self._drivers if each.member.config.instance_id]
            chosen = static[: round(len(static) * share)]
            for driver in chosen:
                driver.end()
                self._ended.append(driver)
            gone = set(map(id, chosen))
            self._drivers = [each for each in self._drivers if id(each) not in gone]
            return [each.member.config for each in chosen]

        configs = self._ask(end)
        self.join(configs)
        return len(configs)

    def is_stable(self) -> bool:
        """Whether every member is Stable and in the same generation as the rest of its group."""

        def look() -> bool:
            generations: dict[str, set[int]] = defaultdict(set)
            for driver in self._drivers:
                member = driver.member
                if member.state is not State.STABLE or member.coordinator is None:
                    return False
                generations[member.config.group_id].add(member.generation)
            return all(len(each) == 1 for each in generations.values())

        return self._ask(look)

    def counts(self) -> dict[State, int]:
        """Count the members by their state."""

        def look() -> dict[State, int]:
            found: dict[State, int] = defaultdict(int)
            for driver in self._drivers:
                found[driver.member.state] += 1
            return dict(found)

        return self._ask(look)

    def stories(self) -> list[Story]:
        """Return what every member lived through so far, ended lives first."""

        def look() -> list[Story]:
            seen_ms = now_ms()
            ended = [_story(driver.member, None) for driver in self._ended]
            return ended + [_story(driver.member, seen_ms) for driver in self._drivers]

        return self._ask(look)

    def _ask(self, question: Callable[[], T]) -> T:
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(question())
            except BaseException as error:  # it belongs to the thread that asked
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return answer.result()

    async def _start(self, configs: Iterable[MemberConfig]) -> None:
        if self._lookups is None:
            self._lookups = Lookups(self._load.bootstrap)
        for number, config in enumerate(configs, 1):
            rng = random.Random(self._rng.random())
            member = ClassicMember(config, rng, self._load.partitions_of)
            driver = Driver(member, self._lookups, self._load.commit_interval_ms)
            self._drivers.append(driver)
            driver.step()
            if number % STARTS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def _stop(self) -> None:
        for number, driver in enumerate(self._drivers, 1):
            driver.stop("the load is over")
            if number % STARTS_PER_TURN == 0:
                await asyncio.sleep(0)
        deadline = time.monotonic() + FAREWELL_SECONDS
        while time.monotonic() < deadline:
            if all(driver.member.is_done for driver in self._drivers):
                break
            await asyncio.sleep(0.05)
        for driver in self._drivers:
            driver.end()
        if self._lookups is not None:
            self._lookups.close()


def _story(member: ClassicMember, seen_ms: int | None) -> Story:
    config = member.config
    return Story(
        group_id=config.group_id,
        name=config.instance_id or config.client_id,
        is_static=config.instance_id is not None,
        events=tuple(member.history),
        seen_ms=seen_ms,
        holds=member.partitions,
    )
