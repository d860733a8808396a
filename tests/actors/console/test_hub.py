"""How often a source is asked, and what is made of its answers."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from actors.console import hub as hub_module
from actors.console.hub import (
    CHANGES_MAX,
    PACE_MS,
    PACE_MS_MAX,
    SLOW_PACE_MS,
    TAKES_SHARE,
    Hub,
    Shared,
)
from actors.console.source import GroupList, Offset, SourceError
from tests.actors.console.sources import NOW_MS, FakeSource, group


class Timed:
    """A question that takes as long as a test says."""

    def __init__(self, takes_ms: int) -> None:
        self.now_ms = NOW_MS
        self.count = 0
        self._takes_ms = takes_ms

    async def ask(self) -> int:
        self.count += 1
        self.now_ms += self._takes_ms
        return self.count


@pytest.mark.parametrize(
    ("takes_ms", "waits_ms"), [(0, 1_000), (400, 400 * TAKES_SHARE), (9_000, PACE_MS_MAX)]
)
def test_a_slow_answer_is_asked_for_less_often(takes_ms: int, waits_ms: int) -> None:
    async def test() -> None:
        timed = Timed(takes_ms)
        shared = Shared(timed.ask, 1_000, lambda: timed.now_ms)
        assert await shared.get() == 1
        timed.now_ms += waits_ms - 1
        assert await shared.get() == 1
        timed.now_ms += 1
        assert await shared.get() == 2

    asyncio.run(test())


def test_while_nothing_changes_it_is_asked_less_often() -> None:
    async def test() -> None:
        source, now = FakeSource(), [NOW_MS]
        hub = Hub(source, lambda: now[0], lambda: now[0])

        async def rebalances_after(passed_ms: int) -> int | None:
            now[0] += passed_ms
            return (await hub.groups()).groups[0].rebalances

        source.list = GroupList(groups=[group("g", rebalances=1)])
        assert await rebalances_after(0) == 1
        source.list = GroupList(groups=[group("g", rebalances=2)])
        assert await rebalances_after(PACE_MS - 1) == 1
        assert await rebalances_after(1) == 2
        assert await rebalances_after(PACE_MS) == 2, "it has the same answer"
        source.list = GroupList(groups=[group("g", rebalances=3)])
        assert await rebalances_after(SLOW_PACE_MS - 1) == 2
        assert await rebalances_after(1) == 3
        source.list = GroupList(groups=[group("g", rebalances=4)])
        assert await rebalances_after(PACE_MS) == 4, "it changes again"

    asyncio.run(test())


def test_what_changes_all_the_time_is_asked_less_often() -> None:
    async def test() -> None:
        source, now = FakeSource(), [NOW_MS]
        hub = Hub(source, lambda: now[0], lambda: now[0])

        async def asked_after(passed_ms: int, rebalances: int) -> int:
            now[0] += passed_ms
            source.list = GroupList(groups=[group("g", rebalances=rebalances)])
            await hub.groups()
            return len(source.asked)

        for number in range(1, CHANGES_MAX + 2):
            assert await asked_after(PACE_MS, number) == number
        assert await asked_after(SLOW_PACE_MS - 1, 100) == CHANGES_MAX + 1
        assert await asked_after(1, 100) == CHANGES_MAX + 2
        assert await asked_after(SLOW_PACE_MS, 100) == CHANGES_MAX + 3, "the same for once"
        assert await asked_after(SLOW_PACE_MS, 101) == CHANGES_MAX + 4
        assert await asked_after(PACE_MS, 102) == CHANGES_MAX + 5, "a change among others"

    asyncio.run(test())


def test_offsets_and_sessions_of_a_group_may_change_all_the_time() -> None:
    async def test() -> None:
        source, now = FakeSource(), [NOW_MS]
        hub = Hub(source, lambda: now[0], lambda: now[0])
        found = await hub.group("orders")
        assert found is not None
        now[0] += PACE_MS
        offsets = [Offset(unit="t-0", committed=number) for number in (1, 2)]
        source.details["orders"] = replace(found, offsets=offsets[:1])
        assert (await hub.group("orders")) == source.details["orders"]
        source.details["orders"] = replace(found, offsets=offsets[1:])
        now[0] += SLOW_PACE_MS - 1
        assert (await hub.group("orders")) != source.details["orders"]
        now[0] += 1
        assert (await hub.group("orders")) == source.details["orders"]

    asyncio.run(test())


def test_records_and_leases_of_partitions_may_change_all_the_time() -> None:
    async def test() -> None:
        source, now = FakeSource(), [NOW_MS]
        hub = Hub(source, lambda: now[0], lambda: now[0])

        async def asked_after(passed_ms: int, **change: Any) -> int:
            now[0] += passed_ms
            first, *others = source.shown.partitions
            partitions = (replace(first, **change), *others)
            source.shown = replace(source.shown, partitions=partitions)
            await hub.cluster()
            return len(source.asked)

        assert await asked_after(0) == 1
        assert await asked_after(PACE_MS, remark="records: 7") == 2
        assert await asked_after(PACE_MS, remark="records: 8") == 2, "it is much the same"
        assert await asked_after(SLOW_PACE_MS - PACE_MS, epoch=99) == 3
        assert await asked_after(PACE_MS) == 4, "another leader is no small thing"

    asyncio.run(test())


def test_a_source_that_hangs_or_fails_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub_module, "ANSWER_S", 0.01)

    async def hang() -> None:
        await asyncio.Event().wait()

    async def fail() -> None:
        raise ZeroDivisionError("a fault of ours")

    async def test() -> None:
        with pytest.raises(SourceError, match=r"^There was no answer in time\.$"):
            await Shared(hang, 1_000, lambda: NOW_MS).get()
        with pytest.raises(SourceError, match="ZeroDivisionError: a fault of ours"):
            await Shared(fail, 1_000, lambda: NOW_MS).get()

    asyncio.run(test())


def test_one_who_gives_up_does_not_end_the_question_of_others() -> None:
    async def test() -> None:
        may_answer = asyncio.Event()

        async def ask() -> str:
            await may_answer.wait()
            return "yes"

        shared = Shared(ask, 1_000, lambda: NOW_MS)
        first, second = (asyncio.create_task(shared.get()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        may_answer.set()
        assert await second == "yes"

    asyncio.run(test())


def test_groups_of_a_node_that_was_silent_are_no_rebalances_when_they_come_back() -> None:
    async def test() -> None:
        source, now = FakeSource(), [NOW_MS]
        hub = Hub(source, lambda: now[0], lambda: now[0])
        some, all_of_them = ["g-0"], ["g-0", "g-1"]
        for names, notes in ((all_of_them, ()), (some, ("silent",)), (all_of_them, ())):
            source.list = GroupList(
                groups=[group(name, rebalances=100) for name in names], notes=notes
            )
            await hub.groups()
            now[0] += 6_000
        assert [each.rebalances_per_minute for each in hub.points] == [0.0, 0.0, 0.0]

    asyncio.run(test())


def test_a_coordinator_that_counts_from_0_again_is_no_rebalance() -> None:
    async def test() -> None:
        source, now = FakeSource(), [NOW_MS]
        hub = Hub(source, lambda: now[0], lambda: now[0])
        for counts in ((3, 5), (4, 5), (0, 6), (0, 6)):
            source.list = GroupList(
                groups=[group(f"g-{n}", rebalances=count) for n, count in enumerate(counts)]
            )
            await hub.groups()
            now[0] += 6_000
        assert [each.rebalances_per_minute for each in hub.points] == [0.0, 10.0, 10.0, 0.0]
        assert hub.points_since(NOW_MS + 6_000) == list(hub.points)[2:]

    asyncio.run(test())
