"""Request frames that are encoded once and sent many times, and fixed fields of answers.

For load generators, which must be far cheaper than the server that they measure.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from protocol.client.versions import version_of
from protocol.wire import compact
from protocol.wire.frames import FrameBuffer, encode_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from kio.static.protocol import RequestPayload

CLIENT_ID: Final = "rollcall-bench"
LENGTH: Final = struct.Struct(">i")
INT32: Final = struct.Struct(">i")
CORRELATION_AT: Final = 8
"""The offset of a request's correlation id: after length (4), API key (2) and version (2)."""
ERROR_AT: Final = 9
"""The offset of the error in an answer without its length: after correlation id (4), header tags
(1) and throttle time (4). This holds for JoinGroup 6+, SyncGroup 4+, Heartbeat 4+ and
ConsumerGroupHeartbeat."""
AFTER_ERROR: Final = ERROR_AT + 2
HEARTBEAT_ANSWER: Final = struct.Struct(">iiq")
"""A whole Heartbeat 4 answer: length 12, correlation id, and 0 for tags, throttle time, error."""
ANSWER_BYTES_MAX: Final = 1 << 30


def frame_of(request: RequestPayload, client_id: str = CLIENT_ID) -> bytearray:
    """Encode ``request`` with its length; its correlation id may be patched in place."""
    key = request.__api_key__
    return bytearray(encode_request(key, version_of(request), 0, client_id, request))


def with_number(frame: bytes | bytearray, correlation_id: int) -> bytes:
    """Return a request's frame with another correlation id."""
    number = LENGTH.pack(correlation_id)
    return b"".join((frame[:CORRELATION_AT], number, frame[CORRELATION_AT + LENGTH.size :]))


def error_in(frame: bytes) -> int:
    """Return the error code at :data:`ERROR_AT`."""
    return int.from_bytes(frame[ERROR_AT:AFTER_ERROR], signed=True)


class Template:
    """A request with placeholders: one for each of ``marks``, in the order of its bytes.

    A mark is the bytes of a value that occurs only once in the request.
    """

    __slots__ = ("_pieces", "_size")

    def __init__(self, request: RequestPayload, *marks: bytes, client_id: str = CLIENT_ID) -> None:
        rest = bytes(frame_of(request, client_id))[LENGTH.size :]
        self._pieces: list[bytes] = []
        for mark in marks:
            piece, found, rest = rest.partition(mark)
            assert found
            self._pieces.append(piece)
        self._pieces.append(rest)
        self._size = sum(map(len, self._pieces))

    def fill(self, *parts: bytes) -> bytes:
        """Return the whole frame with ``parts`` in the places of the marks."""
        pieces = self._pieces
        filled = [b"", pieces[0]]
        size = self._size
        for number, part in enumerate(parts, 1):
            size += len(part)
            filled += (part, pieces[number])
        filled[0] = LENGTH.pack(size)
        return b"".join(filled)


MARK: Final = "\x01a place left open\x01"
"""A string for :class:`Template`; its bytes are :data:`MARKED`."""
MARKED: Final = compact.string(MARK)


def by_frame(take: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Return a function that takes a connection's bytes and passes each whole answer to ``take``.

    An answer is passed without its length. An invalid length raises ``FrameError``.
    """
    feed = FrameBuffer(ANSWER_BYTES_MAX).feed

    def received(data: bytes) -> None:
        for frame in feed(data):
            take(frame)

    return received
