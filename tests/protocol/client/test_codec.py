"""The codec of clients, which remembers, beside the one that it stands for."""

import pytest

from protocol.client import codec
from protocol.client.versions import version_of
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import encode_request, encode_response
from protocol.wire.messages import NO_THROTTLE, HeartbeatResponse
from tests.failover.apis import asks

MESSAGES = [asks.heartbeat("g", 1, "m"), asks.heartbeat("g", 2, "m"), asks.commit("g", 5)]


@pytest.mark.parametrize("number", [0, 7, 2**31 - 1])
@pytest.mark.parametrize("message", MESSAGES)
def test_a_request_is_the_same_with_any_number_however_often_it_is_written(message, number):
    version = version_of(message)
    expected = encode_request(message.__api_key__, version, number, "client", message)
    for _ in range(2):
        assert codec.encode(message, version, number, "client") == expected
        assert codec.encode(message, version, number, "other") != expected


@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.not_coordinator])
def test_an_answer_is_the_same_whichever_request_it_belongs_to(code):
    message = MESSAGES[0]
    answer = HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=code)
    for number in (1, 2):
        frame = encode_response(message.__api_key__, version_of(message), number, answer)[4:]
        assert codec.decode(message.__api_key__, version_of(message), frame) == answer
