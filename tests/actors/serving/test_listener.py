"""What a connection may do, and what it may not do to others: a real listener, a made-up host."""

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.serving.admission import Limits
from actors.serving.connection import (
    ERRING_MAX,
    REPEATED_BYTES_MAX,
    TAKEN_AT_ONCE,
    WAITING_FRAMES_MAX,
)
from actors.serving.listener import Listener
from actors.serving.memo import Memo
from protocol.groups.effects import HeartbeatLease, Reply, Request, Ticket
from protocol.wire.apis import api_versions_response
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import decode_response, encode_request
from protocol.wire.messages import (
    NO_THROTTLE,
    ApiVersionsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    ProduceRequest,
)
from tests.waiting import WITHIN_S, patient, until_async

PRODUCE, API_VERSIONS, HEARTBEAT = 0, 18, 12
BYTES_MAX = 10_000
FLOODS, FLOOD = 5, TAKEN_AT_ONCE + 12
API_VERSIONS_ASKED = ApiVersionsRequest(client_software_name="c", client_software_version="1")


class Group:
    stamp = 1


class Member:
    session_timeout_ms = 10_000
    session_deadline_ms = 0


class RequestHandler:
    """A host that answers when the test says so, or at once."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.abandoned: list[Ticket] = []
        self.answers_at_once = True
        self.is_serving = True
        self.serve_s = 1.0
        self.error_code = ErrorCode.none
        self.lease: HeartbeatLease | None = None
        self.listener: Listener

    def now(self) -> int:
        return 1_000

    def wake(self) -> None:
        asyncio.get_running_loop().call_soon(self.serve)

    def serve(self) -> None:
        if self.is_serving and self.listener.serve(self.serve_s):
            self.wake()

    def receive(self, request: Request) -> None:
        self.requests.append(request)
        if self.answers_at_once:
            asyncio.get_running_loop().call_soon(self.answer, request)

    def abandon(self, ticket: Ticket) -> None:
        self.abandoned.append(ticket)

    def answer(self, request: Request) -> None:
        if request.api_key == HEARTBEAT:
            message = HeartbeatResponse(error_code=self.error_code, throttle_time=NO_THROTTLE)
            self.listener.answer(Reply(request.ticket, message, lease=self.lease))
        else:
            self.listener.answer(Reply(request.ticket, api_versions_response()))
        self.listener.flush()


@contextlib.asynccontextmanager
async def listening(
    idle_ms: int = 600_000, bytes_max: int = BYTES_MAX, **limits: Any
) -> AsyncIterator[tuple[RequestHandler, int]]:
    handler = RequestHandler()
    listener = Listener(handler, Limits(request_bytes_max=bytes_max, idle_ms_max=idle_ms, **limits))
    handler.listener = listener
    port = await listener.open("127.0.0.1", 0)
    try:
        yield handler, port
    finally:
        listener.close()
        await seen(lambda: not listener.connections, "all connections are closed")


async def seen(condition: Callable[[], object], what: str) -> None:
    async def ask() -> object:
        return condition()

    await until_async(ask, WITHIN_S, what)


def heartbeat(correlation_id: int, client_id: str = "c", group_id: str = "g") -> bytes:
    request = HeartbeatRequest(
        group_id=group_id, generation_id=1, member_id="m", group_instance_id=None
    )
    return encode_request(HEARTBEAT, 4, correlation_id, client_id, request)


def api_versions(correlation_id: int) -> bytes:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    return encode_request(API_VERSIONS, 3, correlation_id, "c", request)


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    return await reader.readexactly(size)


async def is_served(port: int) -> bool:
    """Say whether a well-behaved client gets its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(api_versions(77))
    answer = await asyncio.wait_for(read_answer(reader), WITHIN_S)
    writer.close()
    return decode_response(API_VERSIONS, 3, answer)[0] == 77


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Wait until the other side closes."""
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), WITHIN_S)
    return True


def run(test: Callable[[], Awaitable[None]]) -> None:
    uvloop.run(asyncio.wait_for(test(), patient(60)))


@pytest.mark.parametrize(
    ("garbage", "sentence"),
    [
        (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", "over the limit"),
        (struct.pack(">i", -1), "negative"),
        (struct.pack(">i", BYTES_MAX + 1), "over the limit"),
        (struct.pack(">i", 3) + b"abc", "too short"),
        (struct.pack(">ihhih", 10, 9999, 0, 1, -1), "API 9999 version 0 is not served"),
        (struct.pack(">ihhih", 10, HEARTBEAT, 99, 1, -1), "API 12 version 99 is not served"),
        (struct.pack(">ihhih", 10, HEARTBEAT, 4, 1, -1), "Heartbeat version 4 cannot be read"),
        (struct.pack(">ihhih", 10, HEARTBEAT, 4, 1, 500), "Heartbeat version 4 cannot be read"),
        (heartbeat(1)[:4] + heartbeat(1)[4:].replace(b"\x02g", b"\x02\xff"), "cannot be read"),
        (
            encode_request(PRODUCE, 9, 1, "c", blank(ProduceRequest, acks=0)),
            "expects no response and is not supported",
        ),
    ],
)
def test_garbage_closes_its_connection_with_one_line_and_harms_no_other(
    garbage: bytes, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with listening() as (handler, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(garbage)
            assert await is_closed(reader)
            writer.close()
            assert handler.requests == []
            assert await is_served(port)

    with caplog.at_level(logging.WARNING, "rollcall.listener"):
        run(test)
    assert len(caplog.records) == 1
    assert "127.0.0.1" in caplog.messages[0]
    assert sentence in caplog.messages[0]


def test_many_bad_clients_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with listening() as (_, port):
            for _ in range(50):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(struct.pack(">i", -1))
                assert await is_closed(reader)
                writer.close()

    with caplog.at_level(logging.WARNING, "rollcall.listener"):
        run(test)
    assert len(caplog.records) <= 10


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.binary(max_size=200) | st.sampled_from([heartbeat(1), api_versions(2)])))
def test_whatever_the_bytes_the_listener_goes_on(pieces: list[bytes]) -> None:
    async def test() -> None:
        async with listening() as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(ConnectionError):
                for piece in pieces:
                    writer.write(piece)
                writer.write_eof()
                await asyncio.wait_for(reader.read(), WITHIN_S)
            writer.close()
            assert await is_served(port)

    run(test)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_request_with_flipped_bytes_is_answered_or_closed(data: st.DataObject) -> None:
    request = bytearray(data.draw(st.sampled_from([heartbeat(1), api_versions(2)])))
    for place in data.draw(st.lists(st.integers(4, len(request) - 1), max_size=4)):
        request[place] = data.draw(st.integers(0, 255))

    async def test() -> None:
        async with listening() as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(bytes(request))
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await asyncio.wait_for(read_answer(reader), WITHIN_S)
            writer.close()
            assert await is_served(port)

    run(test)


def test_a_too_new_api_versions_is_answered_in_version_0_and_the_connection_stays() -> None:
    """KIP-511: a newer client learns what it may speak."""

    async def test() -> None:
        async with listening() as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(struct.pack(">ihhih", 10, API_VERSIONS, 99, 5, -1))
            correlation_id, answer = decode_response(API_VERSIONS, 0, await read_answer(reader))
            assert correlation_id == 5
            assert answer.error_code is ErrorCode.unsupported_version
            assert {18, 12} <= {int(row.api_key) for row in answer.api_keys}
            writer.write(api_versions(6))
            assert decode_response(API_VERSIONS, 3, await read_answer(reader))[0] == 6
            writer.close()

    run(test)


def test_a_frame_may_come_byte_by_byte() -> None:
    async def test() -> None:
        async with listening() as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for byte in api_versions(9):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            assert decode_response(API_VERSIONS, 3, await read_answer(reader))[0] == 9
            writer.close()

    run(test)


def test_one_request_is_in_flight_and_answers_come_in_order() -> None:
    async def test() -> None:
        async with listening() as (handler, port):
            handler.answers_at_once = False
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"".join(heartbeat(n) for n in range(20)))
            for number in range(20):
                await seen(lambda: bool(handler.requests), "a request arrives")
                assert len(handler.requests) == 1, "the next request waits for the answer"
                handler.answer(handler.requests.pop())
                assert decode_response(HEARTBEAT, 4, await read_answer(reader))[0] == number
            writer.close()

    run(test)


def test_a_client_that_sends_without_waiting_is_no_longer_read() -> None:
    async def test() -> None:
        async with listening() as (handler, port):
            handler.answers_at_once = False
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            many = 20 * WAITING_FRAMES_MAX
            writer.write(b"".join(heartbeat(n) for n in range(many)))
            answered = 0
            while answered < many:
                await seen(lambda: bool(handler.requests), "a request arrives")
                handler.answer(handler.requests.pop())
                assert decode_response(HEARTBEAT, 4, await read_answer(reader))[0] == answered
                answered += 1
            writer.close()

    run(test)


def test_a_leased_heartbeat_is_answered_without_asking_again() -> None:
    async def test() -> None:
        async with listening() as (handler, port):
            member = Member()
            handler.lease = HeartbeatLease(Group(), 1, member)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for number in range(1, 6):
                writer.write(heartbeat(number))
                assert decode_response(HEARTBEAT, 4, await read_answer(reader))[0] == number
            assert len(handler.requests) == 1
            assert member.session_deadline_ms == 11_000
            writer.close()

    run(test)


def test_the_answer_to_a_long_heartbeat_is_not_kept() -> None:
    """The memo has room for many: of 100 MB each they would fill any memory."""

    async def test() -> None:
        async with listening() as (handler, port):
            handler.lease = HeartbeatLease(Group(), 1, Member())
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for number in range(1, 4):
                writer.write(heartbeat(number, "c" * REPEATED_BYTES_MAX))
                await read_answer(reader)
            assert len(handler.requests) == 3
            assert len(handler.listener.memo) == 0
            writer.close()

    run(test)


def test_a_leased_heartbeat_does_not_wait_behind_the_requests_of_others() -> None:
    async def test() -> None:
        async with listening() as (handler, port):
            handler.lease = HeartbeatLease(Group(), 1, Member())
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(heartbeat(1))
            await read_answer(reader)
            handler.is_serving = False
            _, other_writer = await asyncio.open_connection("127.0.0.1", port)
            other_writer.write(api_versions(1))
            await seen(lambda: bool(handler.listener.inbox), "the other waits")
            writer.write(heartbeat(2))
            assert decode_response(HEARTBEAT, 4, await read_answer(reader))[0] == 2
            assert len(handler.listener.inbox) == 1
            writer.close()
            other_writer.close()

    run(test)


def test_floods_of_leased_heartbeats_wait_their_turn_and_a_single_one_does_not() -> None:
    class Counting(Memo):
        recalls = 0

        def recall(self, *arguments: Any) -> bytes | None:
            self.recalls += 1
            return super().recall(*arguments)

    async def test() -> None:
        async with listening() as (handler, port):
            memo = handler.listener.memo = Counting()
            handler.lease = HeartbeatLease(Group(), 1, Member())
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(heartbeat(1))
            await read_answer(reader)
            handler.is_serving = False
            memo.recalls = 0
            floods = [await asyncio.open_connection("127.0.0.1", port) for _ in range(FLOODS)]
            for _, flooding in floods:
                flooding.write(b"".join(map(heartbeat, range(FLOOD))))
            await seen(lambda: len(handler.listener.inbox) == FLOODS, "the floods wait")
            assert memo.recalls == 0  # before the coordinator's turn, that is bounded in time
            writer.write(heartbeat(2))
            assert decode_response(HEARTBEAT, 4, await read_answer(reader))[0] == 2
            assert memo.recalls == 1
            handler.is_serving = True
            handler.wake()
            for flooded, flooding in floods:
                for number in range(FLOOD):
                    assert decode_response(HEARTBEAT, 4, await read_answer(flooded))[0] == number
                flooding.close()
            assert len(handler.requests) == 1
            writer.close()

    run(test)


def test_a_group_that_asks_much_waits_for_itself_and_lets_others_through() -> None:
    async def test() -> None:
        async with listening() as (handler, port):
            many = [await known_member(port, "many") for _ in range(20)]
            one = await known_member(port, "one")
            handler.requests.clear()
            handler.is_serving, handler.serve_s = False, 0.0
            for _, writer in many:
                writer.write(heartbeat(2, group_id="many"))
            await seen(lambda: len(handler.listener.inbox) == 20, "all wait")
            one[1].write(heartbeat(2, group_id="one"))
            await seen(lambda: len(handler.listener.inbox) == 21, "the last waits")
            assert handler.listener.serve(0.0), "one is served at a time"
            assert all(handler.listener.serve(0.0) for _ in range(2))
            assert [each.message.group_id for each in handler.requests] == ["many", "many", "one"]
            assert handler.listener.serve(1.0) is False
            assert len(handler.requests) == 21
            for _, writer in (*many, one):
                writer.close()

    run(test)


def test_a_client_is_erring_while_many_of_its_requests_are_refused() -> None:
    async def test() -> None:
        async with listening() as (handler, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            erring = []
            for number, code in enumerate([refused] * 10 + [ErrorCode.none] * 20 + [refused] * 50):
                handler.error_code = code
                writer.write(heartbeat(number))
                await read_answer(reader)
                (connection,) = handler.listener.connections
                erring.append(connection.is_erring())
            assert erring.index(True) == 9
            assert erring.index(False, 10) == 10
            assert erring.index(True, 10) == 34
            assert connection.errors == ERRING_MAX
            writer.close()

    refused = ErrorCode.unknown_member_id
    run(test)


def test_who_asks_for_the_first_time_does_not_wait_behind_a_group_of_newcomers() -> None:
    async def test() -> None:
        async with listening() as (handler, port):
            known = await known_member(port, "many")  # the API is known from here on
            handler.requests.clear()
            handler.is_serving, handler.serve_s = False, 0.0
            newcomers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            for _, writer in newcomers:
                writer.write(heartbeat(1, group_id="many"))
            await seen(lambda: len(handler.listener.inbox) == 20, "all wait")
            one = await asyncio.open_connection("127.0.0.1", port)
            one[1].write(encode_request(API_VERSIONS, 3, 1, "c", API_VERSIONS_ASKED))
            await seen(lambda: len(handler.listener.inbox) == 21, "the last waits")
            assert all(handler.listener.serve(0.0) for _ in range(3))
            assert [each.api_key for each in handler.requests] == [
                HEARTBEAT,
                HEARTBEAT,
                API_VERSIONS,
            ]
            for _, writer in (known, *newcomers, one):
                writer.close()

    run(test)


async def known_member(
    port: int, group_id: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect and ask once, so that the listener knows whose connection it is."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(heartbeat(1, group_id=group_id))
    await read_answer(reader)
    return reader, writer


def test_a_request_whose_client_goes_before_it_is_served_is_not_asked() -> None:
    async def test() -> None:
        async with listening() as (handler, port):
            handler.is_serving = False
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(heartbeat(1))
            await seen(lambda: bool(handler.listener.inbox), "the request waits")
            writer.transport.abort()
            await seen(lambda: not handler.listener.connections, "the client is gone")
            assert handler.listener.serve(1.0) is False
            assert handler.requests == []
            assert handler.abandoned == []

    run(test)


def test_one_request_at_a_time_is_measured_and_the_next_after_one_whose_client_has_gone() -> None:
    async def test() -> None:
        async with listening() as (handler, port):
            timed: list[tuple[float, float]] = []
            handler.listener.timed = lambda *both: timed.append(both)
            handler.is_serving = False
            _, gone = await asyncio.open_connection("127.0.0.1", port)
            gone.write(heartbeat(1))
            await seen(lambda: handler.listener.measured, "the first request is measured")
            gone.transport.abort()
            await seen(lambda: not handler.listener.connections, "the client is gone")
            handler.listener.serve(1.0)
            assert timed == []
            streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            for _, writer in streams:
                writer.write(heartbeat(1))
            await seen(lambda: len(handler.listener.inbox) == 3, "the requests wait")
            handler.is_serving = True
            handler.serve()
            for reader, _ in streams:
                await asyncio.wait_for(read_answer(reader), WITHIN_S)
            assert len(timed) == 1
            assert all(seconds > 0 for seconds in timed[0])
            for _, writer in streams:
                writer.close()

    run(test)


def test_a_request_whose_client_has_gone_is_abandoned_and_its_late_answer_is_dropped() -> None:
    async def test() -> None:
        async with listening() as (handler, port):
            handler.answers_at_once = False
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(heartbeat(1))
            await seen(lambda: bool(handler.requests), "the request arrives")
            writer.transport.abort()
            await seen(lambda: bool(handler.abandoned), "it is abandoned")
            assert handler.abandoned == [handler.requests[0].ticket]
            handler.answer(handler.requests[0])
            assert await is_served_later(handler, port)

    run(test)


async def is_served_later(handler: RequestHandler, port: int) -> bool:
    handler.answers_at_once = True
    return await is_served(port)


def test_a_client_that_does_not_read_is_let_go_and_harms_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with listening(idle_ms=400) as (_, port):
            deaf = socket.socket()
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            deaf.connect(("127.0.0.1", port))
            deaf.setblocking(False)
            chunk = unsent = b"".join(api_versions(n) for n in range(500))

            async def flood() -> bool:
                nonlocal unsent
                try:
                    unsent = unsent[deaf.send(unsent) :] or chunk
                except BlockingIOError:
                    return False
                except ConnectionError:
                    return True
                return False

            await until_async(flood, 30, "the deaf client is cut off")
            deaf.close()
            assert await is_served(port)

    with caplog.at_level(logging.WARNING, "rollcall.listener"):
        run(test)
    assert "does not read" in caplog.text


def test_an_idle_connection_is_closed_after_connections_max_idle_ms() -> None:
    async def test() -> None:
        async with listening(idle_ms=200) as (_, port):
            idle, idle_writer = await asyncio.open_connection("127.0.0.1", port)
            half = heartbeat(1)[:9]
            stuck, stuck_writer = await asyncio.open_connection("127.0.0.1", port)
            stuck_writer.write(half)
            assert await is_closed(idle)
            assert await is_closed(stuck)
            idle_writer.close()
            stuck_writer.close()

    run(test)


def test_a_connection_that_waits_for_its_answer_is_not_idle() -> None:
    """A JoinGroup may be parked for minutes."""

    async def test() -> None:
        async with listening(idle_ms=100) as (handler, port):
            handler.answers_at_once = False
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(heartbeat(1))
            silent, silent_writer = await asyncio.open_connection("127.0.0.1", port)
            assert await is_closed(silent)
            silent, other_writer = await asyncio.open_connection("127.0.0.1", port)
            assert await is_closed(silent)
            handler.answer(handler.requests[0])
            assert decode_response(HEARTBEAT, 4, await read_answer(reader))[0] == 1
            for one in (writer, silent_writer, other_writer):
                one.close()

    run(test)
