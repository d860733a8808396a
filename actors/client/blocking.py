"""A blocking connection to one broker, with one request in flight at a time."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final, Self

from actors.client.login import ANSWER_BYTES_MAX, log_in, with_tls
from actors.client.security import PLAINTEXT
from protocol.client.connection import ClientConnection, NotServedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kio.static.protocol import RequestPayload

    from actors.client.security import Login, Security

RECEIVE_BYTES: Final = 65_536


class BlockingConnection:
    """One connection. ``agreed`` are the API versions to use; None: ask the broker.

    Raises OSError if the broker cannot be reached, closes the connection or does not respond in
    time, and ``BadFrame`` or ``FrameError`` if its bytes are not a response; close it then. Raises
    LoginError at the start if ``security`` and the broker do not fit.
    """

    def __init__(
        self,
        address: tuple[str, int],
        timeout_s: float,
        client_id: str,
        agreed: Mapping[int, int] | None = None,
        security: Security = PLAINTEXT,
    ) -> None:
        self._socket = socket.create_connection(address, timeout_s)
        if security.tls is not None:
            self._socket = with_tls(self._socket, address[0], security.tls)
        if security.login is not None:
            self._log_in(client_id, security.login)
        self._client = ClientConnection(client_id, agreed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def ask(self, message: RequestPayload) -> Any:
        """Send a request and return its response, whose type depends on the request.

        Raises ``NotServedError`` if the broker supports no version that this client supports.
        """
        self._client.ask(message)
        response = self._answer()
        if isinstance(response, NotServedError):
            raise response
        return response

    def ask_frame(self, frame: bytes | bytearray) -> bytes:
        """Send an encoded request and return the encoded response, both with their lengths."""
        self._client.ask_frame(frame)
        answer: bytes = self._answer()
        return len(answer).to_bytes(4) + answer

    def _log_in(self, client_id: str, login: Login) -> None:
        self._client = ClientConnection(client_id, {}, ANSWER_BYTES_MAX)
        try:
            log_in(self.ask_frame, client_id, login)
        except BaseException:
            self.close()
            raise

    def _answer(self) -> Any:
        while True:
            if data := self._client.data_to_send():
                self._socket.sendall(data)
            received = self._socket.recv(RECEIVE_BYTES)
            if not received:
                raise ConnectionResetError("the server closed the connection")
            for answer in self._client.receive(received):
                return answer.response
