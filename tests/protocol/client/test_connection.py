"""One connection of a client, without its socket: what it sends, what it takes, what it refuses."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.client import connection as connections
from protocol.client.connection import (
    Answer,
    ClientConnection,
    NotServedError,
    TooManyInFlightError,
)
from protocol.client.versions import agreed, newest
from protocol.wire.apis import API, api_versions_response
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import (
    API_VERSIONS,
    BadFrame,
    Decoded,
    FrameBuffer,
    FrameError,
    decode_request,
    encode_response,
)
from protocol.wire.messages import (
    NO_THROTTLE,
    ApiVersion,
    ApiVersionsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
)

HEARTBEAT = 12


def beat(member_id: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=3, member_id=member_id)


def sent(connection: ClientConnection) -> list[Decoded]:
    """Read what a client wants to write as a broker reads it."""
    return [decode_request(each) for each in FrameBuffer(1 << 20).feed(connection.data_to_send())]


def answer_to(request: Decoded, error: ErrorCode = ErrorCode.none) -> bytes:
    message = HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=error)
    return encode_response(request.api_key, request.api_version, request.correlation_id, message)


def versions_for(request: Decoded, error: ErrorCode = ErrorCode.none) -> bytes:
    message = api_versions_response(error)
    version = 0 if error else request.api_version
    return encode_response(API_VERSIONS, version, request.correlation_id, message)


def test_each_answer_comes_with_the_token_of_its_request():
    client = ClientConnection("me", newest())
    for name in ("a", "b"):
        client.ask(beat(name), token=name)
    first, second = sent(client)
    assert (first.client_id, first.message, second.message) == ("me", beat("a"), beat("b"))
    data = answer_to(first) + answer_to(second, ErrorCode.unknown_member_id)
    answers = client.receive(data)
    assert [(each.token, each.response.error_code) for each in answers] == [
        ("a", ErrorCode.none),
        ("b", ErrorCode.unknown_member_id),
    ]
    assert client.in_flight == 0


@given(st.data())
def test_answers_are_the_same_wherever_the_stream_is_cut(data: st.DataObject) -> None:
    client = ClientConnection("me", newest())
    for number in range(3):
        client.ask(beat("m"), token=number)
    stream = b"".join(map(answer_to, sent(client)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    answers: list[Answer] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        answers += client.receive(stream[start:end])
    assert [each.token for each in answers] == [0, 1, 2]


def test_versions_are_agreed_on_before_anything_else_is_sent():
    client = ClientConnection("me", None)
    client.ask(beat("m"), token="t")
    (first,) = sent(client)
    assert (first.api_key, first.api_version) == (API_VERSIONS, API[API_VERSIONS].max_version)
    assert client.receive(versions_for(first)) == []
    (second,) = sent(client)
    assert (second.message, second.api_version) == (beat("m"), API[HEARTBEAT].max_version)
    assert [each.token for each in client.receive(answer_to(second))] == ["t"]


def test_a_broker_that_does_not_know_our_newest_apiversions_is_asked_in_version_0():
    """KIP-511: it answers UNSUPPORTED_VERSION in version 0."""
    client = ClientConnection("me", None)
    (first,) = sent(client)
    client.receive(versions_for(first, ErrorCode.unsupported_version))
    (second,) = sent(client)
    assert isinstance(second.message, ApiVersionsRequest)
    assert second.api_version == 0
    with pytest.raises(BadFrame, match="unsupported_version"):
        client.receive(versions_for(second, ErrorCode.unsupported_version))


def test_an_api_without_a_version_in_common_is_not_sent():
    class Row:
        api_key, min_version, max_version = HEARTBEAT, 99, 100

    assert agreed([Row()]) == {}
    client = ClientConnection("me", {})
    with pytest.raises(NotServedError, match="Heartbeat"):
        client.ask(beat("m"))
    assert client.data_to_send() == b""


def test_one_that_waited_for_the_versions_is_answered_by_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = ClientConnection("me", None)
    (first,) = sent(client)
    client.ask(beat("m"), token="t")
    monkeypatch.setattr(connections.versions, "agreed", lambda _rows: {})
    ((token, error),) = client.receive(versions_for(first))
    assert token == "t"
    assert isinstance(error, NotServedError)


def test_a_frame_goes_out_as_it_is_and_its_answer_comes_as_it_is():
    client = ClientConnection("me", newest())
    other = ClientConnection("me", newest())
    other.ask(beat("m"))
    frame = other.data_to_send()
    client.ask_frame(frame, token="t")
    assert client.data_to_send() == frame
    answer = answer_to(decode_request(frame[4:]))
    assert client.receive(answer) == [("t", answer[4:])]


def test_an_answer_to_another_request_ends_the_connection():
    client = ClientConnection("me", newest())
    client.ask(beat("m"))
    (request,) = sent(client)
    with pytest.raises(BadFrame, match="which is not the next one"):
        client.receive(answer_to(request._replace(correlation_id=77)))
    assert [each.token for each in client.receive(answer_to(request))] == [None]
    with pytest.raises(BadFrame, match="which is not the next one"):
        client.receive(answer_to(request))


def test_an_answer_that_is_too_long_ends_the_connection():
    client = ClientConnection("me", newest(), response_bytes_max=1_000)
    with pytest.raises(FrameError, match="over the limit"):
        client.receive((1_001).to_bytes(4))


def test_no_more_requests_than_the_bound_are_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IN_FLIGHT_MAX", 2)
    for client in (ClientConnection("me", newest()), ClientConnection("me", None)):
        while client.in_flight < 2:
            client.ask(beat("m"))
        with pytest.raises(TooManyInFlightError):
            client.ask(beat("m"))
        with pytest.raises(TooManyInFlightError):
            client.ask_frame(bytes(20))


@pytest.mark.parametrize("versions", [newest(), None])
def test_what_has_no_answer_is_named_when_the_socket_has_ended(versions: Any) -> None:
    client = ClientConnection("me", versions)
    client.ask(beat("m"), token="a")
    client.ask(DescribeGroupsRequest(groups=("g",), include_authorized_operations=False), token="b")
    assert client.ended() == ["a", "b"]
    assert client.ended() == []
    assert client.data_to_send() == b""


def test_a_server_that_is_not_asked_gets_what_kafka_4_3_has_too() -> None:
    versions = newest()
    assert {key: versions[key] for key in (18, 42, 88, 89)} == {18: 4, 42: 2, 88: 0, 89: 0}
    listed = [ApiVersion(api_key=key, min_version=0, max_version=9) for key in (42, 88)]
    assert agreed(listed) == {42: 3, 88: 1}
    listed = [ApiVersion(api_key=key, min_version=0, max_version=0) for key in (42, 88)]
    assert agreed(listed) == {42: 0, 88: 0}
