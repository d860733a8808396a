"""Run in a copy of the project in which docs/how-to/add-a-request.md was followed."""

import pytest

from protocol.wire.apis import API, api_versions_response
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import decode_request, decode_response, encode_request, encode_response
from protocol.wire.messages import ApiVersionsRequest
from tests.failover.working import working_driver


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_client_asks_for_tokens_and_is_told_that_there_are_none(version: int) -> None:
    shape = API[41].request
    frame = encode_request(41, version, 7, "client", shape(owners=None))[4:]
    asked = decode_request(frame)
    answer = working_driver().ask(41, version, asked.message)
    sent = encode_response(41, version, 7, answer)
    _, read = decode_response(41, version, sent[4:])
    assert read.error_code is ErrorCode.delegation_token_auth_disabled


def test_clients_see_that_it_is_served() -> None:
    assert ApiVersionsRequest.__api_key__ in {each.api_key for each in listed()}
    assert 41 in {each.api_key for each in listed()}


def listed():  # type: ignore[no-untyped-def]
    return api_versions_response().api_keys
