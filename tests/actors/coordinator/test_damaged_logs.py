"""Replicas on bad disks: a damaged log is set aside and filled again; a full one hands over."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.cluster.spec import on_one_host
from actors.coordinator.coordinator import Coordinator
from actors.testing.coordinators import Neighbours
from bench.servers.processes import free_port
from protocol.wire.errors import ErrorCode
from tests.actors.cluster.test_listening_ports import HOST
from tests.actors.coordinator.coordinators import COMMON
from tests.actors.coordinator.test_coordinator import (
    OFFSET_COMMIT,
    Caller,
    MemberEventLog,
    is_ready,
    make_topic,
    run,
    running,
    spec_in,
)
from tests.failover.apis import asks
from tests.small_disk import fill, mounted
from tests.waiting import WITHIN_S, until_async


class Trio:
    """Three coordinators of three replicas each, on this event loop."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.spec = replace(
            spec_in(directory, 0),
            places=on_one_host(HOST, (free_port() for _ in range(3))),
            overrides={**COMMON, "offsets.topic.num.partitions": "3"},
            replicas_wanted=3,
        )
        self.coordinators: list[Coordinator] = []

    def path(self, node_id: int) -> Path:
        return self.spec.log_path(node_id)

    def create(self, node_id: int) -> Coordinator:
        return Coordinator(
            self.spec,
            node_id,
            Neighbours(self.coordinators, b"secret"),
            MemberEventLog(),
        )

    async def start(self) -> None:
        self.coordinators += [self.create(node_id) for node_id in range(3)]
        for each in self.coordinators:
            each.start()
        for each in self.coordinators:
            await is_ready(each)
        self.spec = replace(self.spec, directories=self.coordinators[0].directories)

    async def restart(self, node_id: int) -> Coordinator:
        again = self.coordinators[node_id] = self.create(node_id)
        again.start()
        return again

    def row(self, node_id: int, partition: int) -> dict[str, Any]:
        rows = self.coordinators[node_id].status()["partitions"]
        return next((row for row in rows if row["partition"] == partition), {})

    def leader(self, partition: int) -> int:
        """Return who leads a partition, -1 when nobody says so."""
        for node_id in range(3):
            if self.row(node_id, partition).get("state") == "Leader":
                return node_id
        return -1

    def are_all_in_sync(self) -> bool:
        for partition in range(-1, 3):
            leader = self.leader(partition)
            if leader < 0:
                return False
            row = self.row(leader, partition)
            if sorted(row["in_sync"]) != [0, 1, 2] or sorted(row["voters"]) != [0, 1, 2]:
                return False
        return all(self.row(n, p)["is_voter"] for n in range(3) for p in range(-1, 3))


@contextlib.asynccontextmanager
async def trio(directory: Path) -> AsyncIterator[Trio]:
    cluster = Trio(directory)
    await cluster.start()
    try:
        yield cluster
    finally:
        for each in cluster.coordinators:
            await each.stop()


async def healed(cluster: Trio) -> None:
    async def condition() -> bool:
        return cluster.are_all_in_sync()

    await until_async(condition, 20, "every replica is in sync")


async def commit_somewhere(cluster: Trio, group: str, offset: int) -> None:
    """Commit as a client does that asks around until it finds the coordinator."""

    async def is_committed() -> bool:
        for address in (place.listener for place in cluster.spec.places):
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                caller = await Caller.to(address.port)
                try:
                    answer = await caller.ask(OFFSET_COMMIT, asks.commit(group, offset))
                finally:
                    caller.close()
                if answer.topics[0].partitions[0].error_code is ErrorCode.none:
                    return True
        return False

    await until_async(is_committed, 30, f"{group} has committed {offset}")


async def write_some(cluster: Trio) -> None:
    caller = await Caller.to(cluster.spec.places[max(cluster.leader(-1), 0)].listener.port)
    await make_topic(caller)
    caller.close()
    for number in range(30):
        await commit_somewhere(cluster, f"group-{number}", number)


def flip(file: Path, at: float) -> None:
    content = bytearray(file.read_bytes())
    content[int(len(content) * at)] ^= 1
    file.write_bytes(content)


def damage_tables(path: Path, family: bytes) -> None:
    """Flip a bit at the beginning of a column family's tables: where their rows are."""
    found = [file for file in path.glob("*.sst") if family in file.read_bytes()[-2_000:]]
    assert found
    for file in found:
        flip(file, 0.05)


def tables(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.glob("*.sst")}


@pytest.mark.parametrize("family", [b"log", b"state"])
def test_a_damaged_log_is_set_aside_when_the_others_can_fill_it_again(
    tmp_path: Path, family: bytes
) -> None:
    """Damaged batches are found when the log is opened, damaged state when it is loaded."""

    async def test() -> None:
        async with trio(tmp_path / "d") as cluster:
            await healed(cluster)
            await write_some(cluster)
            victim = next(node for node in range(3) if node != cluster.leader(-1))
            old = cluster.coordinators[victim].directory_id
            await cluster.coordinators[victim].stop()
            damage_tables(cluster.path(victim), family)
            damaged = await cluster.restart(victim)
            await asyncio.wait_for(damaged.ready.wait(), WITHIN_S)
            assert (damaged.state, damaged.is_damaged) == ("Failed", True)
            assert "the log is damaged" in damaged.failure and "\n" not in damaged.failure
            damaged.start_empty()
            await is_ready(damaged)
            await commit_somewhere(cluster, "group-7", 700)
            await healed(cluster)
            assert (tmp_path / "d" / f"node-{victim}.corrupt-1").is_dir()
            assert damaged.directory_id not in {old, ""}

    run(test)


def test_a_damaged_log_without_other_replicas_is_refused_untouched(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path / "d") as (coordinator, port):
            await is_ready(coordinator)
            caller = await Caller.to(port)
            await make_topic(caller)
            caller.close()
        path = coordinator.spec.log_path(0)
        damage_tables(path, b"state")
        before = tables(path)
        async with running(tmp_path / "d") as (coordinator, _):
            await asyncio.wait_for(coordinator.ready.wait(), WITHIN_S)
            assert coordinator.state == "Failed"
            assert "move the directory away, and keep it" in coordinator.failure
            assert "\n" not in coordinator.failure
        assert before.items() <= tables(path).items()
        assert not [*(tmp_path / "d").glob("node-0.corrupt*")]

    run(test)


def test_a_leader_whose_disk_is_full_hands_over_and_comes_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        (tmp_path / "d").mkdir()
        with mounted(tmp_path / "d" / "node-0", size_mib=24) as place:
            async with trio(tmp_path / "d") as cluster:
                await healed(cluster)
                await write_some(cluster)
                filler = fill(place)
                for number in range(300):
                    await commit_somewhere(cluster, f"group-{number % 30}", 100 + number)
                assert "there is no room on the disk" in caplog.text
                assert all(cluster.leader(partition) != 0 for partition in range(-1, 3))
                filler.unlink()
                await healed(cluster)

    run(test)
