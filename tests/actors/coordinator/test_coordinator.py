"""One coordinator in this process: its turns, its start, its end, and its sense of time."""

import asyncio
import contextlib
import os
import socket
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from kio.static.protocol import Entity

from actors.clock import Clock
from actors.cluster.spec import Address, ClusterSpec, on_one_host
from actors.coordinator import log_opening
from actors.coordinator.coordinator import Coordinator
from actors.coordinator.pump import serve_s
from failover.catalogue.cluster_view import Node
from failover.host import Host
from protocol.groups.effects import Request
from protocol.groups.facts import Fact
from protocol.wire.apis import API
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import decode_response, encode_request
from protocol.wire.messages import HeartbeatRequest, MetadataRequest
from storage.disk.identity import LogIdentity
from storage.disk.rocks import RocksLog
from storage.log import LogError
from tests.actors.cluster.test_listening_ports import HOST
from tests.failover.apis import asks
from tests.waiting import WITHIN_S, patient, until_async

METADATA, OFFSET_COMMIT, OFFSET_FETCH, CREATE_TOPICS = 3, 8, 9, 19
JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 11, 12, 14


class Nobody:
    """No other process: the coordinator is alone."""

    secret = b"secret"

    def __init__(self) -> None:
        self.coordinator: Coordinator | None = None

    async def forward(self, node_id: int, request: Request) -> Entity | None:
        return None

    async def node_changed(self, leader: int, node: Node) -> bool:
        return False

    async def directories(self) -> tuple[str, ...]:
        assert self.coordinator is not None
        return (self.coordinator.directory_id,)

    async def peer_address(self, node_id: int) -> tuple[str, int] | None:
        return None

    async def announce_peer_address(self, node_id: int, host: str, port: int) -> None:
        pass

    async def announce(self, node_id: int, pid: int) -> bool:
        return True


class MemberEventLog:
    """Keeps the facts."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def observe(self, fact: Fact) -> None:
        self.facts.append(fact)

    def run_context(self, _group_id: str, _run: int) -> str:
        return ""

    def close(self, timeout_s: float = 0) -> None:
        pass


class Machine:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000
        self.frozen_ms = 0

    def clock(self) -> Clock:
        return Clock(lambda: self.ms - self.frozen_ms, lambda: self.ms)


def spec_in(path: Path, port: int, **overrides: str) -> ClusterSpec:
    return ClusterSpec(
        cluster_id="AAAAAAAAAAAAAAAAAAAAAA",
        places=on_one_host(HOST, (port,)),
        console=Address(host=HOST, port=0),
        data_dir=str(path),
        overrides={
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            **{name.replace("_", "."): value for name, value in overrides.items()},
        },
        workers=0,
    )


@contextlib.asynccontextmanager
async def running(
    path: Path, clock: Clock | None = None, **overrides: str
) -> AsyncIterator[tuple[Coordinator, int]]:
    from bench.servers.processes import free_port

    path.mkdir(exist_ok=True)
    port, peers = free_port(), Nobody()
    coordinator = Coordinator(spec_in(path, port, **overrides), 0, peers, MemberEventLog(), clock)
    peers.coordinator = coordinator
    coordinator.start()
    try:
        yield coordinator, port
    finally:
        await coordinator.stop()


class Caller:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, port: int) -> "Caller":
        return cls(*await asyncio.open_connection(HOST, port))

    def send(self, api_key: int, message: Any) -> None:
        version = API[api_key].max_version
        if api_key in {OFFSET_COMMIT, OFFSET_FETCH}:
            version = 9  # the newest that names topics
        self._writer.write(encode_request(api_key, version, 1, "caller", message))
        self._version = version

    async def answer(self, api_key: int) -> Any:
        size = struct.unpack(">i", await self._reader.readexactly(4))[0]
        frame = await self._reader.readexactly(size)
        return decode_response(api_key, self._version, frame)[1]

    async def ask(self, api_key: int, message: Any) -> Any:
        self.send(api_key, message)
        return await asyncio.wait_for(self.answer(api_key), WITHIN_S)

    def close(self) -> None:
        self._writer.close()


async def stable_member(caller: Caller) -> HeartbeatRequest:
    """Bring a group with one member to Stable; return the member's heartbeat."""
    first = await caller.ask(JOIN_GROUP, asks.join("g"))
    joined = await caller.ask(JOIN_GROUP, asks.join("g", first.member_id))
    assert joined.error_code is ErrorCode.none
    member_id, generation = joined.member_id, joined.generation_id
    synced = await caller.ask(SYNC_GROUP, asks.sync("g", generation, member_id, {member_id: b"a"}))
    assert synced.error_code is ErrorCode.none
    return asks.heartbeat("g", generation, member_id)


async def committed(caller: Caller, group: str) -> int:
    answer = await caller.ask(OFFSET_FETCH, asks.fetch(group))
    return asks.offsets_in(answer)[group]["t", 0]


def run(test: Callable[[], Awaitable[None]]) -> None:
    uvloop.run(asyncio.wait_for(test(), patient(60)))


async def is_ready(coordinator: Coordinator) -> None:
    await asyncio.wait_for(coordinator.ready.wait(), WITHIN_S)
    assert coordinator.failure == ""


@pytest.mark.parametrize(
    "error",
    [LogError("/d: the log cannot be opened (IO error)."), OSError(5, "I/O error"), KeyError("x")],
    ids=["the log", "the disk", "a bug"],
)
def test_a_start_that_fails_is_tried_again_when_nothing_says_that_the_log_is_wrong(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that comes back, or a predecessor that is still on its way out."""
    opening, failures, is_back = RocksLog.open, [0], threading.Event()

    def failing(path: Path, owner: LogIdentity) -> RocksLog:
        if not is_back.is_set():
            failures[0] += 1
            raise error
        return opening(path, owner)

    monkeypatch.setattr(RocksLog, "open", failing)
    monkeypatch.setattr(log_opening, "FAILED_S", 0.05)

    async def test() -> None:
        async with running(tmp_path / "d") as (coordinator, _):

            async def has_failed_twice() -> bool:
                return failures[0] >= 2 and coordinator.state == "Failed"

            async def runs() -> bool:
                return coordinator.state == "Running"

            await until_async(has_failed_twice, patient(60), "it fails twice")
            assert not coordinator.is_damaged
            assert coordinator.failure and "\n" not in coordinator.failure
            is_back.set()
            await until_async(runs, patient(60), "it runs")
            await is_ready(coordinator)

    run(test)


def test_when_it_is_ready_clients_find_it_in_the_metadata(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path / "d") as (coordinator, port):
            await is_ready(coordinator)
            assert coordinator.host is not None
            assert coordinator.host.led.rebalances == coordinator.group_metrics.rebalances
            caller = await Caller.to(port)
            answer = await caller.ask(
                METADATA,
                MetadataRequest(
                    topics=(),
                    allow_auto_topic_creation=False,
                    include_topic_authorized_operations=False,
                ),
            )
            assert [(int(row.node_id), row.port) for row in answer.brokers] == [(0, port)]
            caller.close()

    run(test)


def test_what_was_acknowledged_is_there_after_a_clean_stop(tmp_path: Path) -> None:
    async def write() -> None:
        async with running(tmp_path / "d") as (coordinator, port):
            await is_ready(coordinator)
            caller = await Caller.to(port)
            answer = await caller.ask(OFFSET_COMMIT, asks.commit("g", 42))
            assert answer.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition
            caller.close()

    async def topics_then_write() -> None:
        async with running(tmp_path / "d") as (coordinator, port):
            await is_ready(coordinator)
            caller = await Caller.to(port)
            await make_topic(caller)
            answer = await caller.ask(OFFSET_COMMIT, asks.commit("g", 42))
            assert answer.topics[0].partitions[0].error_code is ErrorCode.none
            caller.close()

    async def read() -> None:
        async with running(tmp_path / "d") as (coordinator, port):
            await is_ready(coordinator)
            caller = await Caller.to(port)
            assert await committed(caller, "g") == 42
            caller.close()

    for step in (write, topics_then_write, read):
        run(step)


async def make_topic(caller: Caller) -> None:
    answer = await caller.ask(CREATE_TOPICS, asks.create_topics("t"))
    assert answer.topics[0].error_code is ErrorCode.none


def test_requests_that_arrive_together_share_one_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []
    write = RocksLog.write

    def counted(self: RocksLog, rows: Any, sync: bool) -> None:
        writes.append(len(rows))
        write(self, rows, sync)

    async def test() -> None:
        async with running(tmp_path / "d") as (coordinator, port):
            await is_ready(coordinator)
            callers = [await Caller.to(port) for _ in range(50)]
            await make_topic(callers[0])
            monkeypatch.setattr(RocksLog, "write", counted)
            for number, caller in enumerate(callers):
                caller.send(OFFSET_COMMIT, asks.commit(f"g{number}", number))
            for caller in callers:
                answer = await asyncio.wait_for(caller.answer(OFFSET_COMMIT), WITHIN_S)
                assert answer.topics[0].partitions[0].error_code is ErrorCode.none
            monkeypatch.undo()
            assert 0 < len(writes) < len(callers) / 2
            for number, caller in enumerate(callers):
                assert await committed(caller, f"g{number}") == number
                caller.close()

    run(test)


def test_while_it_loads_clients_are_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_slice, may_load = Host.load_slice, asyncio.Event()

    def gated(self: Host, max_records: int) -> bool:
        return may_load.is_set() and load_slice(self, max_records)

    monkeypatch.setattr(Host, "load_slice", gated)

    async def test() -> None:
        async with running(tmp_path / "d") as (coordinator, port):

            async def listens() -> bool:
                with contextlib.suppress(OSError):
                    (await Caller.to(port)).close()
                    return True
                return False

            await until_async(listens, WITHIN_S, "it listens")
            caller = await Caller.to(port)
            answer = await caller.ask(OFFSET_FETCH, asks.fetch("g"))
            assert answer.groups[0].error_code is ErrorCode.coordinator_load_in_progress
            assert coordinator.status()["state"] == "Loading"
            may_load.set()
            await is_ready(coordinator)
            assert (await caller.ask(OFFSET_FETCH, asks.fetch("g"))).groups[
                0
            ].error_code is ErrorCode.none
            caller.close()

    run(test)


def test_a_member_is_not_expelled_for_our_own_sleep(tmp_path: Path) -> None:
    machine = Machine()

    async def test() -> None:
        async with running(tmp_path / "d", machine.clock()) as (coordinator, port):
            await is_ready(coordinator)
            caller = await Caller.to(port)
            heartbeat = await stable_member(caller)
            machine.ms += 120_000  # four session timeouts, in one go: we stood still
            answer = await caller.ask(HEARTBEAT, heartbeat)
            assert answer.error_code is ErrorCode.none
            caller.close()

    run(test)


def test_records_go_by_the_wall_clock_at_once_after_the_machine_froze(tmp_path: Path) -> None:
    machine = Machine()

    async def test() -> None:
        async with running(tmp_path / "d", machine.clock()) as (coordinator, _):
            await is_ready(coordinator)
            machine.ms += 120_000
            machine.frozen_ms += 120_000
            now = coordinator.now()
            assert coordinator._pump is not None
            assert coordinator._pump.host.wall.at(now) == machine.ms

    run(test)


def test_the_wall_clock_is_read_before_there_are_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may lead at once; then it needs its own clock, to believe what the others say of it."""
    machine = Machine()
    monkeypatch.setattr(Coordinator, "_beat", lambda _: None)

    async def test() -> None:
        async with running(tmp_path / "d", machine.clock()) as (coordinator, _):
            await is_ready(coordinator)
            assert coordinator._pump is not None
            host = coordinator._pump.host
            host.jumped(120_000, machine.ms + 120_000, coordinator.now())
            assert host.wall.at(coordinator.now()) == machine.ms + 120_000

    run(test)


def test_a_member_that_is_silent_while_we_run_is_expelled(tmp_path: Path) -> None:
    machine = Machine()

    async def test() -> None:
        async with running(tmp_path / "d", machine.clock()) as (coordinator, port):
            await is_ready(coordinator)
            caller = await Caller.to(port)
            heartbeat = await stable_member(caller)

            async def expelled() -> bool:
                machine.ms += 400
                coordinator._clock.beat()
                coordinator._pump.tick()  # type: ignore[union-attr]
                await asyncio.sleep(0)
                return any(
                    getattr(fact, "kind", None) == "expired"
                    for fact in coordinator._observer.facts  # type: ignore[attr-defined]
                )

            await until_async(expelled, 20, "the silent member is expelled")
            answer = await caller.ask(HEARTBEAT, heartbeat)
            assert answer.error_code is ErrorCode.unknown_member_id
            caller.close()

    run(test)


def test_a_log_that_can_not_be_opened_is_said_and_not_served(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path / "d") as (coordinator, _):
            await is_ready(coordinator)
            second = Coordinator(coordinator.spec, 0, Nobody(), MemberEventLog())
            second.start()
            await asyncio.wait_for(second.ready.wait(), WITHIN_S)
            assert "another process has this log open" in second.failure
            assert second.status()["state"] == "Failed"
            await second.stop()

    run(test)


def test_a_turn_that_fails_ends_the_process_so_that_the_log_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []

    async def test() -> None:
        async with running(tmp_path / "d") as (coordinator, port):
            await is_ready(coordinator)
            caller = await Caller.to(port)
            await make_topic(caller)
            monkeypatch.setattr(os, "_exit", codes.append)
            with monkeypatch.context() as patch:
                patch.setattr(RocksLog, "write", _full_disk)
                caller.send(OFFSET_COMMIT, asks.commit("g", 1))

                async def ended() -> bool:
                    return bool(codes)

                await until_async(ended, WITHIN_S, "the process would end")
            caller.close()

    run(test)
    assert codes[0] == 1


def _full_disk(*_: object) -> None:
    raise OSError("No space left on device")


@pytest.mark.parametrize(
    ("written", "served"), [(0.0, 0.001), (0.0005, 0.001), (0.008, 0.008), (0.5, 0.02)]
)
def test_requests_are_handled_for_as_long_as_the_last_write_took(
    written: float, served: float
) -> None:
    assert serve_s(written) == served


def test_an_address_that_is_taken_for_a_while_is_bound_when_it_is_free(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It once was given up after five seconds, and the node had failed for ever."""

    async def test() -> None:
        path = tmp_path / "d"
        path.mkdir()
        with contextlib.ExitStack() as taking:
            taken = taking.enter_context(socket.create_server((HOST, 0)))
            port = taken.getsockname()[1]
            peers = Nobody()
            coordinator = Coordinator(spec_in(path, port), 0, peers, MemberEventLog())
            peers.coordinator = coordinator
            coordinator.start()

            async def has_tried() -> bool:
                return bool(coordinator.status()["failure"])

            await until_async(has_tried, 20, "it cannot listen")
            said = f"cannot listen at {HOST}:{port} (Address already in use); trying again"
            assert coordinator.status()["failure"] == said
            assert coordinator.state != "Failed"
            assert caplog.text.count(said) == 1
            taking.close()
            await is_ready(coordinator)
            assert coordinator.status()["failure"] == ""
            await coordinator.stop()

    run(test)
