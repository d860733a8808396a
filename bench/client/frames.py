"""Request frames made once and sent many times, and answers read without decoding them whole."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from bench.client.asking import CLIENT_ID, version_of
from protocol.wire.frames import encode_request

if TYPE_CHECKING:
    from kio.static.protocol import RequestPayload

LENGTH: Final = struct.Struct(">i")
CORRELATION_AT: Final = 8
"""Where a request's correlation id is, after length (4), API key (2) and version (2)."""
MARK: Final = "\x01member id\x01"
HEARTBEAT_ANSWER: Final = struct.Struct(">iiq")
"""A whole Heartbeat 4 answer: length 12, correlation id, and 0 for tags, throttle time, error."""
ERROR_AT: Final = 13
"""Where JoinGroup 6+ and SyncGroup 4+ answers have their error, after length (4), correlation
id (4), header tags (1) and throttle time (4)."""


def frame_of(request: RequestPayload) -> bytearray:
    """Encode ``request`` with its length; its correlation id may be patched in place."""
    key = request.__api_key__
    return bytearray(encode_request(key, version_of(request), 0, CLIENT_ID, request))


def with_number(frame: bytes, number: bytes) -> bytes:
    """Return a request's frame with another correlation id."""
    return frame[:CORRELATION_AT] + number + frame[CORRELATION_AT + LENGTH.size :]


class Template:
    """A request with one place left open: the string :data:`MARK` in it, usually the member id."""

    def __init__(self, request: RequestPayload) -> None:
        mark = compact(MARK)
        before, found, after = bytes(frame_of(request)).partition(mark)
        assert found
        self._before = before[LENGTH.size :]
        self._after = after

    def fill(self, text: str) -> bytes:
        """Return the whole frame with ``text`` in the open place."""
        filled = compact(text)
        size = len(self._before) + len(filled) + len(self._after)
        return b"".join((LENGTH.pack(size), self._before, filled, self._after))


def compact(text: str) -> bytes:
    """Encode a compact string."""
    data = text.encode()
    return varint(len(data) + 1) + data


def compact_bytes(data: bytes) -> bytes:
    """Encode compact bytes."""
    return varint(len(data) + 1) + data


def varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint; return it and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def read_compact(data: bytes, at: int) -> tuple[str, int]:
    """Read a compact string (null as empty); return it and where it ends."""
    size, at = read_varint(data, at)
    end = at + max(size - 1, 0)
    return data[at:end].decode(), end


def split_frames(data: bytes) -> tuple[list[bytes], bytes]:
    """Cut whole frames, lengths included, off ``data``; return them and what is left."""
    frames = []
    start = 0
    while len(data) - start >= LENGTH.size:
        end = start + LENGTH.size + LENGTH.unpack_from(data, start)[0]
        if end > len(data):
            break
        frames.append(data[start:end])
        start = end
    return frames, data[start:]
