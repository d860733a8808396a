"""A load's connections log in before their first request, each in a turn of the event loop."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from actors.client.login import ANSWER_BYTES_MAX
from actors.client.security import Login, Security
from bench.client.connection_settings import ConnectionSettings
from bench.client.stream import Stream
from protocol.wire.messages import ApiVersionsRequest
from tests.actors.client.test_login import (
    PATIENCE_S,
    SCRAM,
    listening,
    plain_broker,
    scram_broker,
    speaking,
    with_tls,
)
from tests.certificates import Authority

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from actors.cli.client import Address

API_VERSIONS = 18
HELLO = ApiVersionsRequest(client_software_name="rollcall", client_software_version="0")
ADA = Login("PLAIN", "ada", "secret")


async def unanswered(address: Address, security: Security) -> list[Any]:
    """Send a request at once; return the tokens of those without an answer, once it has ended."""
    ended: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
    stream = Stream(
        address,
        "me",
        lambda token, answer: ended.set_exception(AssertionError((token, answer))),
        lambda tokens: ended.set_result(list(tokens)),
        ConnectionSettings(security=security),
    )
    stream.send(HELLO, "hello")
    try:
        return await asyncio.wait_for(ended, PATIENCE_S)
    finally:
        stream.close()


def sent_to(serve: Callable[[socket.socket], None], security: Security) -> list[Any]:
    with listening(serve) as address:
        return asyncio.run(unanswered(address, security))


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_what_was_queued_is_sent_after_the_login(mechanism: str) -> None:
    says = plain_broker if mechanism == "PLAIN" else scram_broker(mechanism, "secret")
    asked: list[bytes] = []
    login = Login(mechanism, "ada", "secret")
    tokens = sent_to(speaking(says, (mechanism,), asked), Security(None, login))
    assert tokens == ["hello"], "its connection was closed then"
    (request,) = asked
    assert int.from_bytes(request[:2]) == API_VERSIONS


def test_a_login_may_be_within_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    asked: list[bytes] = []
    serve = with_tls(authority.issue("broker"), speaking(plain_broker, ("PLAIN",), asked))
    trusting = ssl.create_default_context(cafile=authority.certificate)
    assert sent_to(serve, Security(trusting, ADA)) == ["hello"]
    assert len(asked) == 1


def test_who_is_not_trusted_is_sent_nothing(tmp_path: Path) -> None:
    asked: list[bytes] = []
    serve = with_tls(Authority(tmp_path).issue("broker"), speaking(plain_broker, (), asked))
    assert sent_to(serve, Security(ssl.create_default_context(), ADA)) == ["hello"]
    assert asked == []


def test_a_refused_login_ends_the_connection() -> None:
    asked: list[bytes] = []
    assert sent_to(speaking(lambda _: None, ("PLAIN",), asked), Security(None, ADA)) == ["hello"]
    assert asked == []


def test_an_answer_in_pieces_is_put_together() -> None:
    asked: list[bytes] = []

    class Slow:
        """A socket whose bytes arrive one by one."""

        def __init__(self, connection: socket.socket) -> None:
            self.recv = connection.recv
            self._connection = connection

        def sendall(self, data: bytes) -> None:
            for at in range(len(data)):
                self._connection.sendall(data[at : at + 1])

    serve = speaking(plain_broker, ("PLAIN",), asked)
    assert sent_to(lambda each: serve(Slow(each)), Security(None, ADA)) == ["hello"]  # type: ignore[arg-type]
    assert len(asked) == 1


@pytest.mark.parametrize("said", [(ANSWER_BYTES_MAX + 1).to_bytes(4), b"\0\0\0\x04four"])
def test_what_is_no_answer_to_a_login_ends_the_connection(said: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(said)
        connection.recv(1)

    assert sent_to(serve, Security(None, ADA)) == ["hello"]
