"""What many clients may ask of one coordinator together, and what they get beyond that."""

import asyncio
import contextlib
import logging
import struct
from pathlib import Path
from typing import Any

import pytest

from actors.serving import admission, held_bytes
from actors.serving.admission import Admission, Limits
from actors.serving.held_bytes import HeldBytes
from protocol.config import Configs
from protocol.groups.effects import HeartbeatLease
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import decode_response
from tests.actors.coordinator.test_coordinator import Caller, is_ready, running
from tests.actors.coordinator.test_coordinator import run as run_coordinator
from tests.actors.serving.test_listener import (
    HEARTBEAT,
    Group,
    Member,
    api_versions,
    heartbeat,
    is_closed,
    is_served,
    listening,
    read_answer,
    run,
    seen,
)
from tests.failover.apis.asks import set_broker_config
from tests.waiting import WITHIN_S, until_async

HOST = "127.0.0.1"


class Clients(contextlib.AsyncExitStack):
    """Connections that are closed in the end."""

    async def connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(HOST, port)
        self.callback(writer.close)
        return reader, writer


def test_above_max_connections_the_next_wait_to_be_accepted() -> None:
    async def test() -> None:
        async with listening(connections_max=5) as (handler, port), Clients() as clients:
            made = [await clients.connect(port) for _ in range(8)]
            for reader, writer in made[:5]:
                writer.write(api_versions(1))
                await read_answer(reader)
            made[5][1].write(api_versions(1))
            assert len(handler.listener.connections) == 5
            made[0][1].close()
            await asyncio.wait_for(read_answer(made[5][0]), WITHIN_S)
            assert len(handler.listener.connections) == 5

    run(test)


def test_where_there_are_too_many_connections_those_that_never_asked_make_room() -> None:
    async def test() -> None:
        async with (
            listening(connections_max=5, idle_ms=60_000) as (handler, port),
            Clients() as clients,
        ):
            asking = await clients.connect(port)
            asking[1].write(api_versions(1))
            await read_answer(asking[0])
            for _ in range(4):
                await clients.connect(port)
            await seen(lambda: len(handler.listener.connections) == 5, "all places are taken")
            loop = asyncio.get_running_loop()
            for _ in range(6):  # as time goes by
                handler.listener._sweep(loop)
            assert await is_served(port)
            asking[1].write(api_versions(2))
            await read_answer(asking[0])

    run(test)


def test_above_max_connections_per_ip_the_next_are_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with (
            listening(
                connections_per_address_max=100, connections_by_address={HOST: 3}
            ) as (handler, port),
            Clients() as clients,
        ):  # fmt: skip
            made = [await clients.connect(port) for _ in range(3)]
            await seen(lambda: len(handler.listener.connections) == 3, "they are accepted")
            for _ in range(20):
                assert await is_closed((await clients.connect(port))[0])
            assert len(handler.listener.connections) == 3
            made[0][1].close()
            await seen(lambda: len(handler.listener.connections) == 2, "one is gone")
            assert await is_served(port)

    with caplog.at_level(logging.WARNING, "rollcall.listener"):
        run(test)
    assert f"closed a new connection from {HOST}, which already has 3" in caplog.text
    assert len(caplog.records) <= 10


def test_connections_are_accepted_no_faster_than_the_creation_rate() -> None:
    now = 1_000.0
    limits = Limits(request_bytes_max=1, idle_ms_max=1, connections_per_second=10)
    gate = Admission(limits, lambda: now)
    accepted = 0
    for _ in range(31):  # three seconds
        while not gate.wait_s():
            gate.enter(HOST)
            accepted += 1
        assert 0 < gate.wait_s() <= 0.1
        now += 0.1
    assert 39 <= accepted <= 41  # ten at first, then ten a second


def test_the_limit_of_open_files_leaves_some_for_the_log_and_the_peers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for most, left in ((1_024, 512), (65_536, 65_024)):
        monkeypatch.setattr(admission.resource, "getrlimit", lambda _, most=most: (most, most))
        assert admission.open_files_left() == left


def test_limits_are_read_from_the_configs() -> None:
    limits = Limits.of(
        Configs(
            {
                "max.connections": "7",
                "max.connections.per.ip": "3",
                "max.connections.per.ip.overrides": "10.0.0.1:5,[::1]:9",
                "max.connection.creation.rate": "20",
                "queued.max.requests": "4",
                "queued.max.request.bytes": "1000",
                "socket.request.max.bytes": "2000",
                "socket.listen.backlog.size": "8",
                "connections.max.idle.ms": "-1",
            }
        )
    )
    assert limits == Limits(
        request_bytes_max=2_000,
        idle_ms_max=-1,
        connections_max=7,
        connections_per_address_max=3,
        connections_by_address={"10.0.0.1": 5, "::1": 9},
        connections_per_second=20,
        queued_requests_max=4,
        queued_bytes_max=2_000,  # or the largest request would never have room
        backlog=8,
    )
    assert Limits.of(Configs({"queued.max.request.bytes": "-1"})).queued_bytes_max > 1 << 60


def test_max_connections_altered_at_run_time_is_in_force(tmp_path: Path) -> None:
    """Unlike ``socket.request.max.bytes``, which nobody can alter at run time."""

    async def test() -> None:
        async with running(tmp_path / "d") as (coordinator, port), Clients() as clients:
            await is_ready(coordinator)
            asking = await Caller.to(port)
            clients.callback(asking.close)

            async def alter(most: int) -> None:
                asked = set_broker_config("max.connections", str(most))
                (row,) = (await asking.ask(asked.__api_key__, asked)).responses
                assert row.error_code is ErrorCode.none

            await alter(2)
            second, third = [await clients.connect(port) for _ in range(2)]
            for _, writer in (second, third):
                writer.write(api_versions(1))
            await asyncio.wait_for(read_answer(second[0]), WITHIN_S)
            await alter(2)  # answered: the third would have been accepted meanwhile
            listener = coordinator._pump.listener  # type: ignore[union-attr]
            assert len(listener.connections) == 2
            await alter(3)
            await asyncio.wait_for(read_answer(third[0]), WITHIN_S)
            assert len(listener.connections) == 3

    run_coordinator(test)


def test_idle_connections_stay_when_their_time_is_below_zero() -> None:
    async def test() -> None:
        async with listening(idle_ms=-1) as (handler, port), Clients() as clients:
            await clients.connect(port)
            await seen(lambda: len(handler.listener.connections) == 1, "it is accepted")
            loop = asyncio.get_running_loop()
            for _ in range(100):
                handler.listener._sweep(loop)
            assert len(handler.listener.connections) == 1

    run(test)


def test_above_queued_max_requests_sockets_are_not_read_and_groups_take_turns() -> None:
    async def test() -> None:
        async with listening(queued_requests_max=2) as (handler, port), Clients() as clients:
            known = await clients.connect(port)
            known[1].write(heartbeat(1))  # the API is known from here on
            await read_answer(known[0])
            handler.requests.clear()
            handler.is_serving, handler.serve_s = False, 0.0
            many = [await clients.connect(port) for _ in range(20)]
            for _, writer in many:
                writer.write(b"".join(heartbeat(n, group_id="many") for n in range(3)))
            await seen(lambda: len(handler.listener._held_back) == 18, "the others wait")
            one = await clients.connect(port)
            one[1].write(heartbeat(1, group_id="one"))
            await seen(lambda: len(handler.listener._held_back) == 19, "the last waits")
            assert len(handler.listener.inbox) == 2
            held_back = [each for each in handler.listener.connections if each.is_held_back]
            assert len(held_back) == 19
            assert sum(each._is_paused for each in held_back) == 18, "the last waits for its answer"
            one[1].write(heartbeat(2, group_id="one"))
            await seen(lambda: all(each._is_paused for each in held_back), "no more is read")
            handler.answers_at_once = True
            for _ in range(6):
                handler.listener.serve(0.0)
                assert len(handler.listener.inbox) <= 2
            assert "one" in [request.message.group_id for request in handler.requests]
            handler.is_serving = True
            handler.wake()
            for reader, _ in many:
                for number in range(3):
                    assert decode_response(HEARTBEAT, 4, await read_answer(reader))[0] == number
            assert not handler.listener._held_back
            assert not any(each._is_paused for each in handler.listener.connections)
            assert handler.listener.held.held == 0

    run(test)


def test_a_flood_of_repeated_heartbeats_takes_turns_with_what_others_ask() -> None:
    async def test() -> None:
        async with listening() as (handler, port), Clients() as clients:
            handler.lease = HeartbeatLease(Group(), 1, Member())
            flooding = await clients.connect(port)
            flooding[1].write(heartbeat(0))
            await read_answer(flooding[0])
            handler.is_serving, handler.serve_s = False, 0.0
            flooding[1].write(b"".join(heartbeat(n) for n in range(1, 1_001)))
            await seen(lambda: handler.listener.inbox, "it waits for its turn")
            other = await clients.connect(port)
            other[1].write(api_versions(1))
            await seen(lambda: len(handler.listener.inbox) == 2, "the other waits")
            handler.listener.serve(0.0)
            handler.listener.serve(0.0)
            assert len(handler.requests) == 2, "the other is asked after a few heartbeats"
            await read_answer(other[0])
            handler.is_serving = True
            handler.wake()
            for number in range(1, 1_001):
                assert decode_response(HEARTBEAT, 4, await read_answer(flooding[0]))[0] == number
            assert len(handler.requests) == 2
            assert handler.listener.held.held == 0

    run(test)


UNFINISHED = struct.pack(">i", 900_000) + bytes(600_000)


def test_unfinished_frames_take_no_more_than_the_limit_and_harm_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """30 strangers' unfinished frames of 100 MB once grew the memory by 316 MB."""

    async def test() -> None:
        async with (
            listening(bytes_max=1_000_000, queued_bytes_max=2_000_000) as (handler, port),
            Clients() as clients,
        ):
            held = handler.listener.held
            for _ in range(30):
                _, writer = await clients.connect(port)
                writer.write(UNFINISHED)
                assert await is_served(port)
                assert held.held <= 2_000_000 + 600_000
            whole = await clients.connect(port)
            whole[1].write(frame_of(900_000))
            await asyncio.wait_for(read_answer(whole[0]), WITHIN_S)

    with caplog.at_level(logging.WARNING, "rollcall.listener"):
        run(test)
    assert "exceed queued.max.request.bytes" in caplog.text
    assert len(caplog.records) <= 10


def frame_of(size: int) -> bytes:
    """Return an ApiVersions request of about so many bytes: what follows a message is left."""
    frame = api_versions(1)[4:]
    frame += bytes(size - len(frame))
    return struct.pack(">i", len(frame)) + frame


def test_whole_requests_above_the_limit_wait_in_their_sockets_and_are_all_answered() -> None:
    async def test() -> None:
        async with (
            listening(bytes_max=300_000, queued_bytes_max=500_000) as (handler, port),
            Clients() as clients,
        ):
            handler.is_serving = False
            held = handler.listener.held
            made = [await clients.connect(port) for _ in range(10)]
            for _, writer in made:
                writer.write(frame_of(20_000) * 30)
            await seen(lambda: held.is_over and len(held._unread) >= 2, "some are not read")
            assert held.held <= 500_000 + 10 * 262_144  # what each had in one reading
            handler.is_serving = True
            handler.wake()
            for reader, _ in made:
                for _ in range(30):
                    await asyncio.wait_for(read_answer(reader), WITHIN_S)
            assert held.held == held.unfinished == 0
            assert not held._unread

    run(test)


def test_a_frame_that_does_not_come_to_its_end_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with listening(idle_ms=2_000) as (_, port), Clients() as clients:
            reader, writer = await clients.connect(port)

            async def dribble() -> bool:
                if reader.at_eof() or writer.transport.is_closing():
                    return True
                writer.write(b"\0")  # a transport that is closed refuses this
                return False

            writer.write(struct.pack(">i", 9_000))
            await until_async(dribble, WITHIN_S, "the slow writer is closed")
            assert await is_served(port)

    with caplog.at_level(logging.WARNING, "rollcall.listener"):
        run(test)
    assert "a request is not complete in time" in caplog.text


def test_a_large_frame_has_longer_to_come_to_its_end() -> None:
    async def test() -> None:
        async with listening(bytes_max=100_000_000) as (handler, port), Clients() as clients:
            _, writer = await clients.connect(port)
            writer.write(struct.pack(">i", 50_000_000) + b"begun")
            await seen(lambda: handler.listener.held.unfinished == 9, "it is begun")
            loop = asyncio.get_running_loop()
            (connection,) = handler.listener.connections
            sweeps = 0
            while connection in handler.listener.connections:
                handler.listener._sweep(loop)
                await asyncio.sleep(0)
                sweeps += 1
            assert 50 < sweeps < 60
            assert handler.listener.held.held == 0

    run(test)


def test_clients_that_do_not_read_keep_no_more_answers_than_the_limit() -> None:
    async def test() -> None:
        async with listening(queued_bytes_max=200_000) as (handler, _):
            readers = [Reader(size) for size in (70_000, 90_000, 60_000, 80_000)]
            for each in readers[:2]:
                handler.listener.unread(each)  # type: ignore[arg-type]
            readers[0].is_full = False  # it has read meanwhile
            handler.listener.unread(readers[2])  # type: ignore[arg-type]
            assert not any(each.is_dropped for each in readers)
            handler.listener.unread(readers[3])  # type: ignore[arg-type]
            assert [each.is_dropped for each in readers] == [False, True, False, False]
            assert handler.listener._unsent_bytes == 140_000

    run(test)


class Reader:
    def __init__(self, unsent_bytes: int) -> None:
        self.unsent_bytes, self.is_full, self.is_dropped = unsent_bytes, True, False

    def drop(self, why: str) -> None:
        self.is_dropped = True


def test_what_is_held_is_counted_to_the_byte_whatever_happens() -> None:
    async def test() -> None:
        async with listening() as (handler, port), Clients() as clients:
            handler.answers_at_once = False
            for number in range(10):
                _, writer = await clients.connect(port)
                writer.write(heartbeat(1) * number + heartbeat(2)[:-3])
            size = len(heartbeat(1))
            whole = sum((size - 4) * number for number in range(10))
            unfinished = 10 * (size - 3)
            held = handler.listener.held
            await seen(lambda: held.held == whole + unfinished, "all is held")
            assert held.unfinished == unfinished
            await clients.aclose()
            await seen(lambda: not handler.listener.connections, "all are gone")
            assert (held.held, held.unfinished) == (0, 0)

    run(test)


def test_the_longest_unfinished_frames_are_closed_and_no_more_than_needed() -> None:
    held = HeldBytes(1_000)
    holders = [Holder(held, count) for count in (10, 500, 400, 20, 300)]
    held.close_longest(holders)
    assert [each.is_dropped for each in holders] == [False, True, True, False, False]
    assert held.unfinished <= held_bytes.KEPT_SHARE * 1_000


class Holder:
    def __init__(self, held: HeldBytes, count: int) -> None:
        self.held, self.unfinished_bytes, self.is_dropped = held, count, False
        held.add_unfinished(count)

    def read_again(self) -> None:
        pass

    def drop(self, why: str) -> None:
        self.is_dropped = True
        self.held.add_unfinished(-self.unfinished_bytes)


def test_a_coordinator_enforces_its_configs(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            running(tmp_path / "d", max_connections="5", queued_max_requests="1") as (node, port),
            Clients() as clients,
        ):
            await asyncio.wait_for(node.ready.wait(), WITHIN_S)
            made: list[Any] = [await clients.connect(port) for _ in range(30)]
            for _, writer in made:
                writer.write(UNFINISHED)
            await seen(lambda: node.status()["connections"] == 5, "five are accepted")
            await asyncio.sleep(0)
            assert node.status()["connections"] == 5

    run_coordinator(test)
