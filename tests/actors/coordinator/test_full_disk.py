"""A coordinator whose disk fills up: members stay, commits are refused, and all is well again."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.wire.errors import ErrorCode
from tests.actors.coordinator.test_coordinator import (
    HEARTBEAT,
    OFFSET_COMMIT,
    Caller,
    committed,
    is_ready,
    make_topic,
    run,
    running,
    stable_member,
)
from tests.failover.apis import asks
from tests.small_disk import fill, mounted
from tests.waiting import until_async


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", size_mib=24) as place:
        yield place


async def commit_code(caller: Caller, group: str, offset: int) -> ErrorCode:
    answer: Any = await caller.ask(OFFSET_COMMIT, asks.commit(group, offset))
    code: ErrorCode = answer.topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize("flush", ["majority", "os"])
def test_members_keep_their_sessions_while_the_disk_is_full_and_commits_work_again_after(
    small_disk: Path, flush: str
) -> None:
    async def test() -> None:
        async with running(small_disk / "d", log_flush=flush) as (coordinator, port):
            await is_ready(coordinator)
            member, other = await Caller.to(port), await Caller.to(port)
            await make_topic(other)
            beat = await stable_member(member)
            assert await commit_code(other, "simple", 1) is ErrorCode.none
            filler = fill(small_disk)

            async def is_refused() -> bool:
                code = await commit_code(other, "simple", 1)
                return code is ErrorCode.coordinator_not_available

            await until_async(is_refused, 20, "the last page of the disk is full")
            for attempt in range(5):
                code = await commit_code(other, "simple", 2 + attempt)
                assert code is ErrorCode.coordinator_not_available
                answer = await member.ask(HEARTBEAT, beat)
                assert answer.error_code is ErrorCode.none
            assert coordinator.state == "Running"
            filler.unlink()

            async def commits() -> bool:
                return await commit_code(other, "simple", 42) is ErrorCode.none

            await until_async(commits, 20, "commits are taken again")
            assert await committed(other, "simple") == 42
            answer = await member.ask(HEARTBEAT, beat)
            assert answer.error_code is ErrorCode.none
            member.close()
            other.close()
        async with running(small_disk / "d") as (coordinator, port):
            await is_ready(coordinator)
            caller = await Caller.to(port)
            assert await committed(caller, "simple") == 42
            assert (await caller.ask(HEARTBEAT, beat)).error_code is ErrorCode.none
            caller.close()

    run(test)


def test_a_coordinator_that_starts_on_a_full_disk_waits_for_room(small_disk: Path) -> None:
    async def test() -> None:
        filler = fill(small_disk)
        async with running(small_disk / "d") as (coordinator, port):
            for _ in range(3):
                await asyncio.sleep(0)
            assert not coordinator.ready.is_set()
            assert coordinator.failure == ""
            filler.unlink()
            await is_ready(coordinator)
            caller = await Caller.to(port)
            await make_topic(caller)
            assert await commit_code(caller, "g", 1) is ErrorCode.none
            caller.close()

    run(test)
