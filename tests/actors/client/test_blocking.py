"""The client on a blocking socket, and what a broker can do to it."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from actors.cli.client import AdminClient, ApiNotServedError, ClientError
from actors.client.blocking import BlockingConnection
from protocol.client.versions import newest
from protocol.wire.apis import api_versions_response
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import (
    API_VERSIONS,
    BadFrame,
    Decoded,
    FrameBuffer,
    decode_request,
    encode_response,
)
from protocol.wire.messages import NO_THROTTLE, HeartbeatRequest, HeartbeatResponse
from tests.waiting import patient

HEARTBEAT = 12
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
SAID = HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.rebalance_in_progress)
PATIENCE_S = patient(10)

Answer = Callable[[Decoded], bytes]


def fine(request: Decoded) -> bytes:
    message = api_versions_response(ErrorCode.none) if request.api_key == API_VERSIONS else SAID
    return encode_response(request.api_key, request.api_version, request.correlation_id, message)


@contextmanager
def broker(answer: Answer) -> Iterator[tuple[str, int]]:
    """Serve one connection; no bytes as an answer close it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError), listening.accept()[0] as connection:
                frames = FrameBuffer(1 << 20)
                while data := connection.recv(65536):
                    for frame in frames.feed(data):
                        said = answer(decode_request(frame))
                        if not said:
                            return
                        for at in range(0, len(said), 7):
                            connection.sendall(said[at : at + 7])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()
    thread.join(PATIENCE_S)


def test_an_answer_comes_whole_however_it_is_cut():
    with broker(fine) as address, BlockingConnection(address, PATIENCE_S, "me", newest()) as one:
        assert one.ask(BEAT) == SAID
        assert one.ask(BEAT) == SAID


def test_versions_are_agreed_on_first_when_none_are_given():
    with broker(fine) as address, BlockingConnection(address, PATIENCE_S, "me") as one:
        assert one.ask(BEAT) == SAID


def test_a_frame_is_answered_by_a_frame():
    frame = b""

    def keep(request: Decoded) -> bytes:
        nonlocal frame
        frame = fine(request)
        return frame

    asked = bytes.fromhex("0000001b000c0004000000090002") + b"me" + bytes([0, 2]) + b"g"
    asked += (1).to_bytes(4) + bytes([2]) + b"m" + bytes(2)
    asked = (len(asked) - 4).to_bytes(4) + asked[4:]
    with broker(keep) as address, BlockingConnection(address, PATIENCE_S, "me", newest()) as one:
        assert one.ask_frame(asked) == frame


def test_a_broker_that_goes_away_is_an_error():
    with (
        broker(lambda _: b"") as address,
        BlockingConnection(address, PATIENCE_S, "me", newest()) as one,
        pytest.raises(ConnectionResetError),
    ):
        one.ask(BEAT)


def test_a_broker_that_says_nothing_is_waited_for_as_long_as_was_said():
    with (
        broker(lambda _: b"\0\0\0\x10") as address,
        BlockingConnection(address, 0.05, "me", newest()) as one,
        pytest.raises(TimeoutError),
    ):
        one.ask(BEAT)


def test_bytes_that_are_no_answer_are_an_error():
    with (
        broker(lambda _: b"\0\0\0\x04four") as address,
        BlockingConnection(address, PATIENCE_S, "me", newest()) as one,
        pytest.raises(BadFrame),
    ):
        one.ask(BEAT)


def without_heartbeats(request: Decoded) -> bytes:
    message = api_versions_response(ErrorCode.none)
    rows = tuple(row for row in message.api_keys if row.api_key != HEARTBEAT)
    some = replace(message, api_keys=rows)
    return encode_response(API_VERSIONS, request.api_version, request.correlation_id, some)


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (without_heartbeats, ApiNotServedError, "does not serve Heartbeat"),
        (lambda _: b"", ClientError, "the server closed the connection"),
        (lambda _: b"\0\0\0\x04four", ClientError, "which is not the next one"),
    ],
)
def test_an_operator_is_told_what_went_wrong_in_one_sentence(answer, error, said):
    with (
        broker(answer) as address,
        AdminClient([address]) as client,
        pytest.raises(error, match=said) as raised,
    ):
        client.ask_at(address, BEAT)
    assert str(raised.value).startswith(f"{address[0]}:{address[1]}")
