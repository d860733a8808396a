"""A login at a broker that is right, wrong, or hostile; the real one is in ``tests/exchange``."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.serial import entity_reader, entity_writer
from scramp import ScramMechanism

from actors.cli.client import AdminClient, ClientError
from actors.client.blocking import BlockingConnection
from actors.client.login import ITERATIONS_MAX, LoginError
from actors.client.security import PLAINTEXT, Login, Security
from protocol.wire.frames import FrameBuffer, FrameError
from tests.certificates import Authority
from tests.waiting import patient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from actors.cli.client import Address

    Says = Callable[[bytes], bytes | None]

PATIENCE_S = patient(10)
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MESSAGES = {
    17: (SaslHandshakeRequest, SaslHandshakeResponse),
    36: (SaslAuthenticateRequest, SaslAuthenticateResponse),
}


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[Address]:
    """Serve one connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError), server.accept()[0] as connection:
                serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()
    thread.join(PATIENCE_S)


def speaking(
    says: Says, mechanisms: tuple[str, ...], asked_then: list[bytes] | None = None
) -> Callable[[socket.socket], None]:
    """Return what a broker does whose mechanism answers by ``says``; None: it refuses.

    It closes the connection at the first request after the login, which ``asked_then`` gets.
    """

    def answer(message: Any) -> Any:
        if isinstance(message, SaslHandshakeRequest):
            is_known = message.mechanism in mechanisms
            code = ErrorCode.none if is_known else ErrorCode.unsupported_sasl_mechanism
            return SaslHandshakeResponse(error_code=code, mechanisms=mechanisms)
        said = says(message.auth_bytes)
        if said is not None:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.none, error_message=None, auth_bytes=said
            )
        return SaslAuthenticateResponse(
            error_code=ErrorCode.sasl_authentication_failed,
            error_message="Authentication failed",
            auth_bytes=b"",
        )

    def serve(connection: socket.socket) -> None:
        frames = FrameBuffer(1 << 20)
        while data := connection.recv(65536):
            for frame in frames.feed(data):
                key, _, number, size = (
                    int.from_bytes(frame[at:to]) for at, to in ((0, 2), (2, 4), (4, 8), (8, 10))
                )
                if key not in MESSAGES and asked_then is not None:
                    asked_then.append(frame)
                    return
                asked, answered = MESSAGES[key]
                body = BytesIO()
                said = answer(entity_reader(asked)(frame, 10 + size)[0])
                entity_writer(answered)(body, said)
                whole = number.to_bytes(4) + body.getvalue()
                connection.sendall(len(whole).to_bytes(4) + whole)

    return serve


def plain_broker(said: bytes) -> bytes | None:
    return b"" if said == b"\0ada\0secret" else None


def scram_broker(mechanism: str, password: str, change: Callable[[str], str] = str) -> Says:
    """Answer as a broker that knows a password; ``change`` its last words."""
    known = ScramMechanism(mechanism)
    server = known.make_server(lambda _user: known.make_auth_info(password, iteration_count=4096))
    steps = iter(
        (
            (server.set_client_first, server.get_server_first, str),
            (server.set_client_final, server.get_server_final, change),
        )
    )

    def says(said: bytes) -> bytes | None:
        take, give, changed = next(steps)
        try:
            take(said.decode())
        except Exception:
            return None
        return changed(give()).encode()

    return says


def log_in(address: Address, mechanism: str, tls: ssl.SSLContext | None = None) -> None:
    security = Security(tls, Login(mechanism, "ada", "secret"))
    BlockingConnection(address, PATIENCE_S, "me", security=security).close()


def refusal(serve: Callable[[socket.socket], None], mechanism: str = "PLAIN") -> str:
    """Return why a login fails."""
    with listening(serve) as address, pytest.raises(LoginError) as raised:
        log_in(address, mechanism)
    return str(raised.value)


def test_a_plain_login() -> None:
    with listening(speaking(plain_broker, ("PLAIN",))) as address:
        log_in(address, "PLAIN")


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_scram_login(mechanism: str) -> None:
    with listening(speaking(scram_broker(mechanism, "secret"), SCRAM)) as address:
        log_in(address, mechanism)


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_wrong_password_is_told(mechanism: str) -> None:
    refused = "it refuses the login of user ada: Authentication failed"
    assert refusal(speaking(scram_broker(mechanism, "other"), SCRAM), mechanism) == refused
    assert refusal(speaking(lambda _: None, ("PLAIN",))) == refused


def test_another_mechanism_is_told() -> None:
    said = refusal(speaking(plain_broker, SCRAM))
    assert said == "it does not take sasl.mechanism=PLAIN, but SCRAM-SHA-256, SCRAM-SHA-512"


def test_a_broker_must_know_the_password_too() -> None:
    """RFC 5802: else it may be anybody."""
    lying = scram_broker(SCRAM[0], "secret", lambda _: "v=bm90IGl0")
    assert refusal(speaking(lying, SCRAM), SCRAM[0]).startswith("the login of user ada fails: ")


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"r=x,s=eA==,i=4096",
        f"r=x,s=eA==,i={ITERATIONS_MAX + 1}".encode(),
        b"r=x,s=eA==,i=" + b"9" * 100_000,
    ],
    ids=["nothing", "no text", "another nonce", "much work", "a long number"],
)
def test_a_hostile_broker_is_told_in_bounded_time(first: bytes) -> None:
    said = refusal(speaking(lambda _: first, SCRAM), SCRAM[0])
    assert said.startswith("the login of user ada fails: ")
    assert len(said) < 300


def test_a_broker_that_goes_away_in_a_login_is_told() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)

    assert refusal(serve) == "the server closed the connection during the login"


def test_a_broker_that_answers_too_much_is_refused() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"\x7f\0\0\0")
        connection.recv(1)

    with listening(serve) as address, pytest.raises(FrameError):
        log_in(address, "PLAIN")


# --- TLS


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(directory: Path) -> Authority:
    return Authority(directory)


@pytest.fixture(scope="module")
def keystore(authority: Authority) -> Path:
    return authority.issue("broker")


def with_tls(keystore: Path, serve: Callable[[socket.socket], None]) -> Any:
    """Return what a broker with this certificate does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keystore)

    def wrapped(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as safe:
            serve(safe)

    return wrapped


def test_a_login_over_tls(authority: Authority, keystore: Path) -> None:
    trusting = ssl.create_default_context(cafile=authority.certificate)
    serve = with_tls(keystore, speaking(plain_broker, ("PLAIN",)))
    with listening(serve) as address:
        log_in(address, "PLAIN", trusting)


def test_a_certificate_of_somebody_else_is_told(keystore: Path) -> None:
    tls = Security(ssl.create_default_context())
    with (
        listening(with_tls(keystore, lambda _: None)) as address,
        pytest.raises(LoginError, match="its certificate is not trusted: unable to get local"),
    ):
        BlockingConnection(address, PATIENCE_S, "me", security=tls)


def test_a_certificate_of_another_host_is_told(authority: Authority) -> None:
    other = authority.issue("other", ("DNS:elsewhere.example",))
    context = ssl.create_default_context(cafile=authority.certificate)
    with (
        listening(with_tls(other, lambda _: None)) as address,
        pytest.raises(LoginError, match=r"is not trusted: .*not valid for '127.0.0.1'"),
    ):
        BlockingConnection(address, PATIENCE_S, "me", security=Security(context))
    context.check_hostname = False
    with listening(with_tls(other, lambda _: None)) as address:
        BlockingConnection(address, PATIENCE_S, "me", security=Security(context)).close()


def test_plaintext_to_a_port_with_tls_is_told(keystore: Path) -> None:
    with (
        listening(with_tls(keystore, lambda _: None)) as address,
        AdminClient([address], PATIENCE_S, security=PLAINTEXT) as client,
        pytest.raises(ClientError, match=r"; it may want TLS or a login \(security.protocol\)$"),
    ):
        client.metadata()


def test_tls_to_a_port_without_is_told() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"\0\0\0\x04four")

    with (
        listening(serve) as address,
        AdminClient([address], PATIENCE_S, security=Security(ssl.create_default_context())) as one,
        pytest.raises(ClientError, match=r": it does not take a TLS connection \([A-Z_]+\)$"),
    ):
        one.metadata()
