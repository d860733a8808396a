"""Coordinators that really fail over say in their logs who leads, since when, and why."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actors.logs.leader_changes import CHANGES, LeaderChange
from actors.metrics.names import ELECTIONS, RESIGNATIONS
from actors.testing.coordinators import NODES, LocalCluster, LocalWorker
from actors.testing.faults import InjectedFaults
from failover.partition_kinds import CATALOG, GROUPS, KINDS, SHARE_STATE
from tests.actors.coordinator.test_coordinator import MemberEventLog
from tests.waiting import WITHIN_S, until_async

EACH_NODE = {CATALOG.name: 0, GROUPS.name: NODES, SHARE_STATE.name: NODES}


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def has(self, *parts: str) -> bool:
        """Whether one line has all of these parts."""
        lines = (record.getMessage() for record in self.records)
        return any(all(part in line for part in parts) for line in lines)

    def changes(self) -> list[LeaderChange]:
        """The changes of leaders that the lines are about."""
        return [each for record in self.records for each in getattr(record, CHANGES, ())]


@pytest.fixture(autouse=True)
def no_assignors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile nothing: no group has members here."""

    async def nothing(_: LocalWorker) -> None:
        pass

    monkeypatch.setattr(LocalWorker, "warm_up", nothing)


@pytest.fixture
def lines() -> Iterator[Lines]:
    log, found = logging.getLogger("rollcall.coordinator"), Lines()
    before = log.level
    log.addHandler(found)
    log.setLevel(logging.INFO)
    yield found
    log.removeHandler(found)
    log.setLevel(before)


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[LocalCluster]:
    cluster = LocalCluster(path, {}, MemberEventLog(), InjectedFaults())
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


async def logged(lines: Lines, *parts: str) -> None:
    async def is_logged() -> bool:
        return lines.has(*parts)

    await until_async(is_logged, WITHIN_S, f"a line with {parts}")


def counted(cluster: LocalCluster, name: str) -> dict[str, int]:
    """Return a counter of all coordinators by kind of partition."""
    found = [node.metrics()[name] for node in cluster.nodes]
    return {kind.name: sum(each[kind.name] for each in found) for kind in KINDS}


def test_a_failover_can_be_read_in_the_log_and_is_counted(tmp_path: Path, lines: Lines) -> None:
    async def test() -> None:
        async with running(tmp_path) as cluster:
            await logged(lines, "this node leads", "partition 0 (epoch ", " since 20")
            elected = counted(cluster, ELECTIONS)
            assert all(elected[kind.name] >= EACH_NODE[kind.name] for kind in KINDS)
            lost = cluster.coordinator_of("orders")
            led = [number for number in cluster.nodes[lost].leads() if number in range(NODES)]
            await cluster.kill(lost)
            gone = f"node {lost}, the leader before, cannot be reached"
            for number in led:
                await logged(lines, "this node leads", f"partition {number} (epoch ", gone)
            begun = [each for each in lines.changes() if each.begins and each.node == lost]
            assert {each.partition for each in begun} >= set(led), "traces are made of them"
            after = counted(cluster, ELECTIONS)
            assert after[GROUPS.name] >= elected[GROUPS.name] + len(led)

    asyncio.run(test())


def test_a_planned_move_names_who_asked_and_who_took_over(tmp_path: Path, lines: Lines) -> None:
    async def test() -> None:
        async with running(tmp_path) as cluster:
            before = cluster.coordinator_of("orders")
            resigned = counted(cluster, RESIGNATIONS)[GROUPS.name]
            to = await cluster.move("orders", None)
            asked = f"the controller asked this node to hand over to node {to}"
            await logged(lines, "this node no longer leads partition ", asked)
            told = next(one for one in lines.records if asked in one.getMessage())
            assert told.__dict__["partition"].startswith("partition ")
            assert told.__dict__["epoch"] > 0
            await logged(lines, "this node leads", f"node {before}, the leader before, handed over")
            assert counted(cluster, RESIGNATIONS)[GROUPS.name] == resigned + 1

    asyncio.run(test())


def test_a_drain_and_its_end_are_logged(tmp_path: Path, lines: Lines) -> None:
    async def test() -> None:
        async with running(tmp_path) as cluster:
            drained = cluster.nodes[cluster.coordinator_of("orders")]
            assert await drained.hand_over() == []
            await logged(lines, "this coordinator hands over all that it leads, and leads nothing")
            await logged(lines, "this coordinator has handed over all that it led")
            await logged(lines, "no longer leads", "as this coordinator hands over all")
            await logged(lines, f"node {drained.node_id}, the leader before, handed over")
            drained.take_back()
            await logged(lines, "this coordinator may lead again: its drain has ended")

    asyncio.run(test())
