"""A client's socket made safe before its first request: TLS, then a login by SASL (KIP-152)."""

from __future__ import annotations

import re
import ssl
import struct
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.serial import entity_reader, entity_writer

from protocol.wire.frames import BadFrame

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Generator, Mapping

    from actors.client.security import Login

    Words = Generator[bytes, bytes, None]
    """What a mechanism says, or a client; it is sent what the broker answers."""

ANSWER_BYTES_MAX: Final = 1 << 20
ITERATIONS_MAX: Final = 1 << 20
"""How much work of a SCRAM login a broker may ask for; Kafka's own bound is 16,384."""

_HEADER: Final = struct.Struct(">ihhih")
"""Length, API key, version, correlation id, length of the client id."""
_CORRELATION_ID: Final = 0
_ANSWER_AT: Final = 8
"""Where an answer begins: after its length and its correlation id."""
_ITERATIONS: Final = re.compile(r"(?:^|,)i=(\d+)(?:,|$)")


class LoginError(Exception):
    """The broker is not to be trusted, or does not trust the client; trying again does not help."""


def with_tls(connection: socket.socket, host: str, tls: ssl.SSLContext) -> socket.socket:
    """Return the connection with TLS. Raises LoginError and OSError; it is closed then."""
    try:
        return tls.wrap_socket(connection, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise LoginError(f"its certificate is not trusted: {error.verify_message}") from None
    except (ssl.SSLError, ConnectionError) as error:
        why = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise LoginError(f"it does not take a TLS connection ({why or error})") from None
    finally:
        connection.close()  # it was handed on, or is of no use


def log_in(ask_frame: Callable[[bytes], bytes], client_id: str, login: Login) -> None:
    """Log in before the first request; ``ask_frame`` sends one and returns its answer.

    Raises LoginError, and what ``ask_frame`` raises.
    """
    frames = login_frames(client_id, login)
    try:
        frame = next(frames)
        while True:
            frame = frames.send(ask_frame(frame))
    except StopIteration:
        pass
    except ConnectionError:
        raise LoginError("the server closed the connection during the login") from None


def login_frames(client_id: str, login: Login) -> Words:
    """Yield the requests of a login, to be sent the answer of each; both have their lengths.

    Raises LoginError and BadFrame.
    """
    asked = SaslHandshakeRequest(mechanism=login.mechanism)
    _check_mechanism(_read(SaslHandshakeResponse, (yield _written(asked, client_id))), login)
    words = WORDS[login.mechanism](login)
    heard: bytes | None = None
    while True:
        try:
            said = next(words) if heard is None else words.send(heard)
        except StopIteration:
            return
        except ValueError as error:
            raise LoginError(f"the login of user {login.username} fails: {error}") from None
        frame = yield _written(SaslAuthenticateRequest(auth_bytes=said), client_id)
        answer = _read(SaslAuthenticateResponse, frame)
        if answer.error_code is not ErrorCode.none:
            why = answer.error_message or answer.error_code.name.upper()
            raise LoginError(f"it refuses the login of user {login.username}: {why}")
        heard = answer.auth_bytes


def _check_mechanism(agreed: SaslHandshakeResponse, login: Login) -> None:
    if agreed.error_code is ErrorCode.unsupported_sasl_mechanism:
        known = ", ".join(agreed.mechanisms) or "no mechanism"
        raise LoginError(f"it does not take sasl.mechanism={login.mechanism}, but {known}")
    if agreed.error_code is not ErrorCode.none:
        name = agreed.error_code.name.upper()
        raise LoginError(f"it does not take logins ({name}): see security.protocol")


def _written(message: Any, client_id: str) -> bytes:
    """Return a request with its length: the API table has what Rollcall serves, and no logins."""
    body, name = BytesIO(), client_id.encode()
    entity_writer(type(message))(body, message)
    size = _HEADER.size - 4 + len(name) + body.tell()
    key, version = message.__api_key__, message.__version__
    return _HEADER.pack(size, key, version, _CORRELATION_ID, len(name)) + name + body.getvalue()


def _read(answer_type: type, frame: bytes) -> Any:
    try:
        return entity_reader(answer_type)(frame, _ANSWER_AT)[0]
    except Exception as error:
        raise BadFrame(f"{answer_type.__name__} cannot be read: {error}") from None


def _plain(login: Login) -> Words:
    """RFC 4616."""
    yield f"\0{login.username}\0{login.password}".encode()


def _scram(login: Login) -> Words:
    """RFC 5802: the broker proves that it knows the password, too."""
    from scramp import ScramClient, ScramException

    try:
        client = ScramClient([login.mechanism], login.username, login.password)
        first = (yield client.get_client_first().encode()).decode()
        asked = _ITERATIONS.search(first)
        if asked is not None and int(asked[1][:20]) > ITERATIONS_MAX:
            raise ValueError(f"the broker asks for {asked[1][:20]} iterations")
        client.set_server_first(first)
        last = yield client.get_client_final().encode()
        client.set_server_final(last.decode())
    except ScramException as error:
        raise ValueError(str(error)) from None


WORDS: Final[Mapping[str, Callable[[Login], Words]]] = MappingProxyType(
    {"PLAIN": _plain, "SCRAM-SHA-256": _scram, "SCRAM-SHA-512": _scram}
)
"""What is said in each mechanism."""
