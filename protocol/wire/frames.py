"""Converts a connection's bytes to typed requests, and typed answers to bytes.

A frame is a length (int32) and that many bytes: a header and a message. For any input, only
FrameError, BadFrame and UnsupportedApiVersion are raised here.

The correlation id has a fixed place in every frame, so that an answer can be repeated for another
request without encoding it again: see :func:`correlation_id` and :func:`answer_again`.
"""

from __future__ import annotations

import struct
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from protocol.wire.apis import API, Route, api_versions_response
from protocol.wire.convert import same
from protocol.wire.errors import ErrorCode
from protocol.wire.readers import UnreadableError, decoder, request_decoder, skip_tags
from protocol.wire.versions import UnsupportedVersionError, request_plan, response_plan
from protocol.wire.writers import encoder, remembering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


API_VERSIONS: Final = 18
_LENGTH: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">hhih")
_PREFIX: Final = struct.Struct(">ii")
_FLEXIBLE_PREFIX: Final = struct.Struct(">iib")
_REQUEST_PREFIX: Final = struct.Struct(">ihhih")
_UNSUPPORTED: Final = int(ErrorCode.unsupported_version).to_bytes(2, "big")


class FrameError(Exception):
    """The length before a frame is invalid: the connection is not Kafka's, or is broken."""


class BadFrame(Exception):  # noqa: N818 - names the thing, as Kafka's errors do
    """A frame that cannot be decoded: the message is for the log, and the connection closes."""


class UnsupportedApiVersion(Exception):  # noqa: N818 - Kafka's name
    """An API or version that is not served.

    ``answer`` is to be sent before going on, for an ApiVersions request only: a client newer than
    this server learns which versions it may use (KIP-511). Without one the connection closes.
    """

    def __init__(self, api_key: int, api_version: int, answer: bytes | None) -> None:
        super().__init__(f"API {api_key} version {api_version} is not served")
        self.api_key = api_key
        self.api_version = api_version
        self.answer = answer


class Decoded(NamedTuple):
    """A received request, its message in the newest version of its API."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    message: Any


class FrameBuffer:
    """Cuts a stream of bytes into frames; holds at most one incomplete frame."""

    __slots__ = ("_max_bytes", "_pending")

    def __init__(self, max_bytes: int) -> None:
        """Refuse frames longer than ``max_bytes`` (``socket.request.max.bytes``)."""
        self._max_bytes = max_bytes
        self._pending = bytearray()

    @property
    def pending_bytes(self) -> int:
        """The number of bytes received of an incomplete frame."""
        return len(self._pending)

    @property
    def wanted_bytes(self) -> int:
        """The length of the incomplete frame; 0 while it is not known."""
        return int.from_bytes(self._pending[:4], "big") if len(self._pending) >= 4 else 0

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes; return the complete frames, without their lengths."""
        if not self._pending:
            # One read nearly always brings exactly one request.
            size = int.from_bytes(data[:4], "big", signed=True)
            if len(data) == size + 4 and 0 < size <= self._max_bytes:
                return [data[4:]]
        self._pending += data
        return self._cut()

    def _cut(self) -> list[bytes]:
        pending, frames, at, end = self._pending, [], 0, len(self._pending)
        with memoryview(pending) as view:
            while end - at >= 4:
                (size,) = _LENGTH.unpack_from(view, at)
                if size < 0:
                    raise FrameError(f"a frame's length is negative ({size})")
                if size > self._max_bytes:
                    raise FrameError(
                        f"a frame of {size} bytes is over the limit of {self._max_bytes}"
                    )
                if end - at - 4 < size:
                    break
                at += 4 + size
                frames.append(bytes(view[at - size : at]))
        del pending[:at]
        return frames


class _Codec(NamedTuple):
    """The functions and fields for one API version, looked up once."""

    decode: Callable[[bytes, int], Any]
    up: Callable[[Any], Any] | None
    is_flexible: bool
    has_group_id_first: bool


_CODECS: Final[dict[tuple[int, int], _Codec]] = {}


def _request_codec(api_key: int, version: int, correlation: int) -> _Codec:
    """Make a codec at its first use. Cache served APIs only: clients choose the key."""
    api = API.get(api_key)
    if api is None or not api.min_version <= version <= api.max_version:
        raise UnsupportedApiVersion(api_key, version, _refusal(api_key, correlation))
    plan = request_plan(api_key, version)
    codec = _Codec(
        request_decoder(plan.shape, api.elements_max),
        None if plan.up is same else plan.up,
        plan.shape.__flexible__,
        api.route is Route.GROUP and fields(plan.shape)[0].name == "group_id",
    )
    _CODECS[api_key, version] = codec
    return codec


def preparations() -> Iterator[None]:
    """Prepare the codecs of every version served; each step prepares one.

    The first use of a version imports kio's modules of it and compiles its functions: some
    milliseconds each, about a second for all.
    """
    for api in API.values():
        for version in range(api.min_version, api.max_version + 1):
            if (api.key, version) not in _CODECS:
                _request_codec(api.key, version, 0)
            _response_writer(api.key, version)
            yield


def group_id_in(frame: bytes) -> bytes | None:
    """Return the group id of a request without decoding all of it.

    None: it has none, or that is not known cheaply (for the first request of its API and version).
    """
    if len(frame) < 10:
        return None
    api_key, version, _, size = _HEADER.unpack_from(frame)
    codec = _CODECS.get((api_key, version))
    if codec is None or not codec.has_group_id_first:
        return None
    at = 10 + max(size, 0)
    try:
        if not codec.is_flexible:
            begin = at + 2
            return frame[begin : begin + int.from_bytes(frame[at:begin], "big")]
        if frame[at]:
            return None
        length, begin = frame[at + 1], at + 2
        if length > 127:
            length, begin = (length & 127) | frame[begin] << 7, begin + 1
    except IndexError:
        return None
    return frame[begin : begin + length - 1]


def decode_request(frame: bytes) -> Decoded:
    """Decode a request frame (without its length)."""
    if len(frame) < 10:
        raise BadFrame(f"a frame of {len(frame)} bytes is too short for a request header")
    api_key, version, correlation, size = _HEADER.unpack_from(frame)
    codec = _CODECS.get((api_key, version)) or _request_codec(api_key, version, correlation)
    at = 10
    client_id = None
    try:
        if size >= 0:
            at += size
            client_id = frame[10:at].decode()
            if len(frame) < at:
                raise UnreadableError("the client id is longer than the frame")
        if codec.is_flexible:
            at = at + 1 if frame[at] == 0 else skip_tags(frame, at)
        message = codec.decode(frame, at)
        if codec.up is not None:
            message = codec.up(message)
    except Exception as error:
        name = API[api_key].name
        raise BadFrame(f"{name} version {version} cannot be read: {error}") from None
    return Decoded(api_key, version, correlation, client_id, message)


def _refusal(api_key: int, correlation: int) -> bytes | None:
    """Answer a too new ApiVersions in version 0, which every client can decode."""
    if api_key != API_VERSIONS:
        return None
    answer = api_versions_response(ErrorCode.unsupported_version)
    return encode_response(API_VERSIONS, 0, correlation, answer)


@cache
def _response_writer(api_key: int, version: int) -> Callable[[int, Any], bytes]:
    """Make the function that encodes one API version's answers, length and header included."""
    plan = response_plan(api_key, version)
    write_shape, down = encoder(plan.shape), plan.down

    def downgraded(message: Any) -> bytes:
        return write_shape(down(message))

    encode = write_shape if down is same else downgraded
    if API[api_key].group.has_few_answers:
        encode = remembering(encode)
    if plan.shape.__flexible__ and api_key != API_VERSIONS:
        pack, header = _FLEXIBLE_PREFIX.pack, 5

        def write(correlation: int, message: Any) -> bytes:
            body = encode(message)
            return pack(len(body) + header, correlation, 0) + body
    else:
        plain = _PREFIX.pack

        def write(correlation: int, message: Any) -> bytes:
            body = encode(message)
            return plain(len(body) + 4, correlation) + body

    return write


def encode_response(api_key: int, api_version: int, correlation_id: int, message: Any) -> bytes:
    """Encode an answer, given in the newest version, in the version that the client used."""
    return _response_writer(api_key, api_version)(correlation_id, message)


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: Any
) -> bytes:
    """Encode a request of our own, given in the newest version, with its length."""
    plan = request_plan(api_key, api_version)
    body = encoder(plan.shape)(plan.down(message))
    name = b"" if client_id is None else client_id.encode()
    tags = b"\0" if plan.shape.__flexible__ else b""
    size = 10 + len(name) + len(tags) + len(body)
    name_size = -1 if client_id is None else len(name)
    prefix = _REQUEST_PREFIX.pack(size, api_key, api_version, correlation_id, name_size)
    return b"".join((prefix, name, tags, body))


def decode_response(api_key: int, api_version: int, frame: bytes) -> tuple[int, Any]:
    """Decode an answer to a request of our own: its correlation id and the newest version."""
    if len(frame) < 4:
        raise BadFrame(f"a frame of {len(frame)} bytes is too short for a response header")
    correlation = int.from_bytes(frame[:4], "big", signed=True)
    if api_key == API_VERSIONS and frame[4:6] == _UNSUPPORTED:
        api_version = 0
    plan = response_plan(api_key, api_version)
    try:
        at = 4
        if plan.shape.__flexible__ and api_key != API_VERSIONS:
            at = skip_tags(frame, at)
        return correlation, plan.up(decoder(plan.shape)(frame, at))
    except Exception as error:
        name = API[api_key].name
        raise BadFrame(f"{name} response version {api_version} cannot be read: {error}") from None


def correlation_id(frame: bytes) -> bytes:
    """Return the four bytes of a request frame's correlation id."""
    return frame[4:8]


def without_correlation_id(frame: bytes) -> bytes:
    """Return the part of a request that is equal in repeated requests of a connection."""
    return frame[:4] + frame[8:]


def answer_again(response: bytes, frame: bytes) -> bytes:
    """Address an encoded answer (with its length) to another request frame (without)."""
    return response[:4] + frame[4:8] + response[8:]


__all__ = (
    "API_VERSIONS",
    "BadFrame",
    "Decoded",
    "FrameBuffer",
    "FrameError",
    "UnsupportedApiVersion",
    "UnsupportedVersionError",
    "answer_again",
    "correlation_id",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "preparations",
    "without_correlation_id",
)
