"""S1 and S2: what an operator puts back, or a disk loses, takes no acknowledged commit along."""

import asyncio
import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.coordinator.coordinator import Coordinator
from actors.deployment.actors import LogOpenResult
from actors.deployment.starting import _restart_formed
from actors.errors import FailureError
from failover.routing import partition_for
from protocol.wire.errors import ErrorCode
from storage.disk.witness import path_beside
from tests.actors.coordinator.test_coordinator import Caller, is_ready, run
from tests.actors.coordinator.test_damaged_logs import (
    Trio,
    commit_somewhere,
    healed,
    trio,
    write_some,
)
from tests.actors.deployment.test_starting import Operator
from tests.failover.apis import asks
from tests.waiting import WITHIN_S, until_async

OFFSET_FETCH = 9
GROUP = next(f"g-{n}" for n in range(100) if partition_for(f"g-{n}", 3) == 0)
NOTES = ("meta.properties", "formation.json")

Loss = Callable[[Trio, Path], None]


async def committed(cluster: Trio) -> dict[tuple[str, int], int] | None:
    """Ask around once; None: nobody answers."""
    for address in (place.listener for place in cluster.spec.places):
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            caller = await Caller.to(address.port)
            try:
                answer = await caller.ask(OFFSET_FETCH, asks.fetch(GROUP))
            finally:
                caller.close()
            if answer.groups[0].error_code is ErrorCode.none:
                return asks.offsets_in(answer)[GROUP]
    return None


async def is_led(cluster: Trio, partition: int) -> None:
    async def condition() -> bool:
        return cluster.leader(partition) >= 0

    await until_async(condition, 20, "the partition is led")


def empty(path: Path) -> None:
    for entry in path.iterdir():
        if entry.name not in NOTES:
            entry.unlink()


def _restore(cluster: Trio, copy: Path) -> None:
    shutil.rmtree(cluster.path(0))
    shutil.copytree(copy / "node-0", cluster.path(0))


def _restore_machine(cluster: Trio, copy: Path) -> None:
    _restore(cluster, copy)
    shutil.copy(copy / "node-0.incarnation", path_beside(cluster.path(0)))


def _empty(cluster: Trio, copy: Path) -> None:
    empty(cluster.path(0))


@pytest.mark.parametrize(
    "lose", [_restore, _restore_machine, _empty], ids=["a copy", "a copy of the machine", "emptied"]
)
def test_a_node_that_forgot_acknowledged_commits_does_not_vote(tmp_path: Path, lose: Loss) -> None:
    """Nodes 0 and 1 acknowledge 999; node 0 forgets it; nodes 0 and 2 start without node 1."""

    async def test() -> None:
        async with trio(tmp_path / "d") as cluster:
            await healed(cluster)
            await write_some(cluster)
            await commit_somewhere(cluster, GROUP, 1)
            await cluster.coordinators[0].stop()
            (tmp_path / "copy").mkdir()
            shutil.copytree(cluster.path(0), tmp_path / "copy" / "node-0")
            shutil.copy(path_beside(cluster.path(0)), tmp_path / "copy")
            await is_ready(await cluster.restart(0))
            await healed(cluster)
            await cluster.coordinators[2].stop()
            await commit_somewhere(cluster, GROUP, 999)
            for node_id in (0, 1):
                await cluster.coordinators[node_id].stop()
            lose(cluster, tmp_path / "copy")
            forgetful, other = await cluster.restart(0), await cluster.restart(2)
            await asyncio.wait_for(other.opened.wait(), WITHIN_S)
            await asyncio.wait_for(forgetful.opened.wait(), WITHIN_S)
            await _is_settled(forgetful, other)
            assert await committed(cluster) is None, "nodes 0 and 2 must not elect anybody"
            await cluster.restart(1)
            await is_led(cluster, 0)
            if forgetful.state == "Failed":
                assert forgetful.is_damaged and "it is a copy" in forgetful.failure
                forgetful.start_empty()
            await healed(cluster)
            assert await committed(cluster) == {("t", 0): 999}

    run(test)


async def _is_settled(forgetful: Coordinator, other: Coordinator) -> None:
    """Wait until both have stood for election, had they anybody to vote for them."""

    async def condition() -> bool:
        linked = other.status()["linked"]
        return forgetful.state == "Failed" or (forgetful.state == "Running" and linked == [0])

    await until_async(condition, 20, "the two have met")
    loop = asyncio.get_running_loop()
    patience_s = loop.time() + 3

    async def is_over() -> bool:
        return loop.time() > patience_s

    await until_async(is_over, WITHIN_S, "an election's time is over")


def test_a_cluster_whose_databases_are_all_gone_does_not_begin_empty(tmp_path: Path) -> None:
    """S2: it began again and nobody noticed that everything was gone."""

    async def test() -> None:
        async with trio(tmp_path / "d") as cluster:
            for each in cluster.coordinators:
                await each.stop()
            for node_id in range(3):
                empty(cluster.path(node_id))
            again = [await cluster.restart(node_id) for node_id in range(3)]
            for each in again:
                await asyncio.wait_for(each.opened.wait(), WITHIN_S)
            opened = [
                LogOpenResult(each.directory_id, each.failure, each.is_damaged, each.is_new)
                for each in again
            ]
            with pytest.raises(
                FailureError, match=r"too many logs are missing \(node-0, node-1, no"
            ):
                _restart_formed(cluster.spec, opened, Operator())

    run(test)
