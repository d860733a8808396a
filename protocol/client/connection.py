"""One connection of a client, without its socket.

Its adapter writes the bytes that :meth:`ClientConnection.data_to_send` returns, passes received
bytes to :meth:`ClientConnection.receive`, and calls :meth:`ClientConnection.ended` when the socket
has closed. A broker answers the requests of one connection in order, so the correlation id is
checked against the oldest request without an answer.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from protocol.client import codec, versions
from protocol.client.frames import CORRELATION_AT
from protocol.wire.apis import API
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import API_VERSIONS, BadFrame, FrameBuffer
from protocol.wire.messages import ApiVersionsRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kio.static.protocol import RequestPayload

RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
"""A longer answer is refused with ``FrameError``."""
IN_FLIGHT_MAX: Final = 65_536
"""Requests of one connection without an answer; one more is refused."""
CORRELATION_IDS: Final = 0x7FFF_FFFF


class NotServedError(Exception):
    """The broker serves no version of an API that this client knows."""

    def __init__(self, api_key: int) -> None:
        super().__init__(f"the broker does not serve {API[api_key].name}")
        self.api_key = api_key


class TooManyInFlightError(Exception):
    """A connection has :data:`IN_FLIGHT_MAX` requests without an answer."""


class Answer(NamedTuple):
    """An answer: ``token`` came with its request; ``response`` is a frame if the request was."""

    token: Any
    response: Any


class _InFlight(NamedTuple):
    correlation_id: int
    version: int
    message: RequestPayload | None
    token: Any


class ClientConnection:
    """Requests and answers of one connection.

    ``agreed`` are the versions to send in, by API key. With None the connection first asks the
    broker for its versions (ApiVersions, KIP-35), and requests wait for that.
    """

    def __init__(
        self,
        client_id: str,
        agreed: Mapping[int, int] | None,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        self._client_id = client_id
        self._versions = agreed
        self._frames = FrameBuffer(response_bytes_max)
        self._correlation_id = 0
        self._in_flight: deque[_InFlight] = deque()
        self._waiting: list[tuple[RequestPayload, Any, str]] = []
        self._unsent: list[bytes] = []
        if agreed is None:
            self._ask_versions(API[API_VERSIONS].max_version)

    @property
    def in_flight(self) -> int:
        """Requests without an answer, including those that wait for the versions."""
        return len(self._in_flight) + len(self._waiting)

    def ask(self, message: RequestPayload, token: Any = None, client_id: str | None = None) -> None:
        """Send a request; ``token`` comes back with its answer.

        Raises :class:`NotServedError` and :class:`TooManyInFlightError`.
        """
        if self.in_flight >= IN_FLIGHT_MAX:
            raise TooManyInFlightError(f"{IN_FLIGHT_MAX} requests have no answer")
        client_id = self._client_id if client_id is None else client_id
        if self._versions is None:
            self._waiting.append((message, token, client_id))
        elif message.__api_key__ in self._versions:
            self._send(message, self._versions[message.__api_key__], token, client_id)
        else:
            raise NotServedError(message.__api_key__)

    def ask_frame(self, frame: bytes | bytearray, token: Any = None) -> None:
        """Send an encoded request, with its length; its answer is returned as a frame, too."""
        if self.in_flight >= IN_FLIGHT_MAX:
            raise TooManyInFlightError(f"{IN_FLIGHT_MAX} requests have no answer")
        correlation_id = int.from_bytes(frame[CORRELATION_AT : CORRELATION_AT + 4], signed=True)
        self._in_flight.append(_InFlight(correlation_id, 0, None, token))
        self._unsent.append(bytes(frame))

    def data_to_send(self) -> bytes:
        """Take out the bytes to write now."""
        data = b"".join(self._unsent)
        self._unsent.clear()
        return data

    def receive(self, data: bytes) -> list[Answer]:
        """Handle received bytes; return the answers that are complete.

        Raises ``BadFrame`` or ``FrameError``: close the connection then. Call :meth:`data_to_send`
        afterwards. A request that waited for the versions and turns out not to be served gets a
        :class:`NotServedError` as its answer; raising it would affect other requests in flight.
        """
        answers: list[Answer] = []
        for frame in self._frames.feed(data):
            self._take(frame, answers)
        return answers

    def ended(self) -> list[Any]:
        """Drop all requests in flight after the socket has closed; return their tokens."""
        tokens = [each.token for each in self._in_flight if each.token is not _VERSIONS]
        tokens += [token for _, token, _ in self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        self._unsent.clear()
        return tokens

    def _send(self, message: RequestPayload, version: int, token: Any, client_id: str) -> None:
        self._correlation_id = number = (self._correlation_id + 1) & CORRELATION_IDS
        frame = codec.encode(message, version, number, client_id)
        self._in_flight.append(_InFlight(number, version, message, token))
        self._unsent.append(frame)

    def _take(self, frame: bytes, answers: list[Answer]) -> None:
        correlation_id = int.from_bytes(frame[:4], signed=True)
        if not self._in_flight or self._in_flight[0].correlation_id != correlation_id:
            raise BadFrame(f"an answer to request {correlation_id} came, which is not the next one")
        _, version, message, token = self._in_flight.popleft()
        if message is None:
            answers.append(Answer(token, frame))
            return
        response = codec.decode(message.__api_key__, version, frame)
        if token is _VERSIONS:
            self._agree(version, response, answers)
        else:
            answers.append(Answer(token, response))

    def _ask_versions(self, version: int) -> None:
        request = ApiVersionsRequest(client_software_name="rollcall", client_software_version="1")
        self._send(request, version, _VERSIONS, self._client_id)

    def _agree(self, version: int, response: Any, answers: list[Answer]) -> None:
        """Store the broker's versions; if it does not know ours, ask again in version 0."""
        if response.error_code is ErrorCode.unsupported_version and version:
            self._ask_versions(0)
            return
        if response.error_code is not ErrorCode.none:
            raise BadFrame(f"ApiVersions was answered {response.error_code.name}")
        self._versions = versions.agreed(response.api_keys)
        waiting, self._waiting = self._waiting, []
        for message, token, client_id in waiting:
            try:
                self.ask(message, token, client_id)
            except NotServedError as error:
                answers.append(Answer(token, error))


_VERSIONS: Final = object()
"""The token of our own ApiVersions request."""
