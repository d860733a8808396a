"""A coordinator with real sockets and a real log records, a handler raises, and a file replays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.coordinator import incidents, pump
from actors.coordinator.coordinator import Coordinator
from failover.partitions.containment import PartitionFailed
from failover.recording.dump import Dump, read_dump
from failover.recording.recorder import BYTES_MAX, SWITCHED_OFF
from failover.recording.replay import replay
from protocol.groups.effects import TimersDue
from protocol.groups.group_types import TABLES
from protocol.wire.errors import ErrorCode
from tests.actors.coordinator.test_coordinator import (
    HEARTBEAT,
    OFFSET_COMMIT,
    Caller,
    is_ready,
    run,
    running,
    stable_member,
)
from tests.failover.apis import asks
from tests.waiting import WITHIN_S, until_async

ON = {BYTES_MAX.replace(".", "_"): "8000000"}


def plant(
    monkeypatch: pytest.MonkeyPatch, table: str, key: Any, is_bad: Callable[[Any, int], bool]
) -> None:
    """Let a handler raise for some events, as a bug would."""
    real = getattr(TABLES, table)[key]

    def broken(ctx: Any, event: Any, now: int) -> None:
        if is_bad(event, now):
            raise ZeroDivisionError("a bug")
        real(ctx, event, now)

    monkeypatch.setattr(TABLES, table, {**getattr(TABLES, table), key: broken})


def is_of_bad_group(request: Any, now: int) -> bool:
    return bool(request.message.group_id == "bad")


async def files_in(coordinator: Coordinator, many: int = 1) -> list[Path]:
    directory = coordinator.spec.incidents_path()

    def files() -> list[Path]:
        return sorted(directory.glob("*.msgpack")) if directory.exists() else []

    async def are_there() -> bool:
        return len(files()) >= many

    await until_async(are_there, WITHIN_S, "a file is written")
    return files()


def read(path: Path) -> Dump:
    [dump] = read_dump(path.read_bytes())
    return dump


def test_a_handler_raises_and_the_file_leads_to_the_same_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with running(tmp_path / "d", **ON) as (coordinator, port):
            await is_ready(coordinator)
            caller = await Caller.to(port)
            beat = await stable_member(caller)
            for _ in range(3):  # from the second on out of the memo
                assert (await caller.ask(HEARTBEAT, beat)).error_code is ErrorCode.none
            await caller.ask(OFFSET_COMMIT, asks.commit("other", 5))
            plant(monkeypatch, "handlers", OFFSET_COMMIT, is_of_bad_group)
            for _ in range(3):  # each of them fails, and one file is enough
                await caller.ask(OFFSET_COMMIT, asks.commit("bad", 6))
            [path] = await files_in(coordinator)
            assert path.stat().st_mode & 0o777 == 0o600
            assert b"secret" not in path.read_bytes()

            dump = read(path)

            assert dump.about.node_id == 0
            assert dump.about.cluster_id == coordinator.spec.cluster_id
            assert "ZeroDivisionError: a bug" in dump.why
            assert dump.configs["group.initial.rebalance.delay.ms"] == "0"
            again = replay(dump)
            assert again.differences == []
            assert [type(error) for _, error in again.failures] == [ZeroDivisionError]
            assert again.compared == 5  # two joins, a sync, a heartbeat, a commit
            caller.close()

    run(test)


def test_a_fault_that_ends_the_process_is_saved_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Exception] = []
    monkeypatch.setattr(pump, "_restart", ended.append)

    async def test() -> None:
        async with running(tmp_path / "d", **ON) as (coordinator, port):
            await is_ready(coordinator)
            caller = await Caller.to(port)
            await stable_member(caller)
            with monkeypatch.context() as patch:
                late_ms = coordinator.now() + 3_600_000
                plant(patch, "events", TimersDue, lambda _, now: now >= late_ms)
                host = coordinator._pump.host  # type: ignore[union-attr]
                with pytest.raises(PartitionFailed, match="must be reloaded"):
                    host.tick(late_ms)
                coordinator._pump.schedule()  # type: ignore[union-attr]
                [path] = await files_in(coordinator)
                assert ended
                again = replay(read(path))
                assert again.differences == []
                assert [type(error) for _, error in again.failures] == [ZeroDivisionError]
            caller.close()
            coordinator._pump.close()  # type: ignore[union-attr]

    run(test)


def test_there_are_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incidents, "INTERVAL_MS", 0)
    monkeypatch.setattr(incidents, "FILES_MAX", 2)

    async def test() -> None:
        async with running(tmp_path / "d", **ON) as (coordinator, port):
            await is_ready(coordinator)
            caller = await Caller.to(port)
            await caller.ask(OFFSET_COMMIT, asks.commit("other", 5))
            plant(monkeypatch, "handlers", OFFSET_COMMIT, is_of_bad_group)
            for number in range(4):
                await caller.ask(OFFSET_COMMIT, asks.commit("bad", 6))
                files = await files_in(coordinator, min(number + 1, 2))
            assert len(files) == 2
            caller.close()

    run(test)


def test_a_running_coordinator_is_asked_for_its_recording(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path / "on", **ON) as (coordinator, port):
            await is_ready(coordinator)
            caller = await Caller.to(port)
            await stable_member(caller)
            recorded = await coordinator.record()
            assert recorded.missing == ()
            [dump] = read_dump(recorded.data)
            assert replay(dump).differences == []
            caller.close()
        async with running(tmp_path / "off") as (coordinator, _):
            await is_ready(coordinator)
            assert await coordinator.record() == (b"", ((0, SWITCHED_OFF),))

    run(test)
