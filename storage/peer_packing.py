"""Packs one turn's messages for a peer into frames of bounded size, and joins frames to bodies.

A body is what :func:`storage.peer_frames.pack_messages` returns. Many messages of one turn become
several bodies, and a body that is longer than one frame (a single very large message) is cut into
parts. On the link each frame is a length of 4 bytes and that many bytes; the highest bit of the
length says that the next frame continues the body.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from storage.batch import pack
from storage.messages import Append, InstallSnapshot, SoftStateTold
from storage.peer_frames import MessageError, pack_messages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from storage.messages import Message

FRAME_BYTES_MAX: Final = 4 << 20
"""The largest frame on a link."""

BODY_BYTES_MAX: Final = 256 << 20
"""The largest body. The sender drops a larger one, to keep the link, which all partitions share."""

LENGTH_BYTES: Final = 4
CONTINUES: Final = 1 << 31
"""Flag in a frame's length: the next frame continues the same body."""


def payload_bytes(message: Message) -> int:
    """Return the approximate size of a message's records in bytes; 0: it is a small message."""
    if isinstance(message, Append):
        return sum(len(pack(batch)) for batch in message.batches)
    if isinstance(message, InstallSnapshot):
        return sum(len(key) + len(value or b"") + 16 for key, value in message.records)
    if isinstance(message, SoftStateTold):
        return len(message.data)
    return 0


def without_payload(messages: Sequence[Message]) -> list[Message]:
    """Return the messages that carry no records or soft state: votes, answers, heartbeats.

    A slow peer still gets these, so that one partition's records do not silence the others.
    """
    return [message for message in messages if not payload_bytes(message)]


def bodies(messages: Sequence[Message]) -> Iterator[bytes]:
    """Pack messages, in order, into bodies of about one frame or of one message each."""
    group: list[Message] = []
    size = 0
    for message in messages:
        more = payload_bytes(message)
        if group and size + more > FRAME_BYTES_MAX:
            yield pack_messages(group)
            group, size = [], 0
        group.append(message)
        size += more
    if group:
        yield pack_messages(group)


def framed(body: bytes, frame_bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    """Split a body into one frame, or several that continue each other."""
    if len(body) <= frame_bytes_max:
        return len(body).to_bytes(LENGTH_BYTES, "big") + body
    view = memoryview(body)
    parts = [view[at : at + frame_bytes_max] for at in range(0, len(body), frame_bytes_max)]
    lengths = [CONTINUES | len(part) for part in parts[:-1]] + [len(parts[-1])]
    heads = (length.to_bytes(LENGTH_BYTES, "big") for length in lengths)
    return b"".join(chain.from_iterable(zip(heads, parts, strict=True)))


PARTS_MAX: Final = 1 + BODY_BYTES_MAX // FRAME_BYTES_MAX


class FrameReader:
    """Cuts a stream into bodies. The limits may be raised between two bodies."""

    def __init__(self, frame_bytes_max: int, body_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.body_bytes_max = body_bytes_max
        self._pending = bytearray()
        self._parts: list[bytes] = []
        self._parts_bytes = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the complete bodies; raises :class:`MessageError` for one that is too long."""
        if not self._pending and not self._parts and len(data) >= LENGTH_BYTES:
            size = int.from_bytes(data[:LENGTH_BYTES], "big")
            if len(data) == size + LENGTH_BYTES and size <= self.frame_bytes_max:
                yield data[LENGTH_BYTES:]
                return
        pending = self._pending
        pending += data
        at = 0
        try:
            while len(pending) - at >= LENGTH_BYTES:
                begin = at + LENGTH_BYTES
                length = int.from_bytes(pending[at:begin], "big")
                size = length & ~CONTINUES
                self._check(size)
                if len(pending) - begin < size:
                    break
                at = begin + size
                part = bytes(memoryview(pending)[begin:at])
                if length & CONTINUES:
                    self._parts.append(part)
                    self._parts_bytes += size
                elif self._parts:
                    body = b"".join((*self._parts, part))
                    self._parts, self._parts_bytes = [], 0
                    yield body
                else:
                    yield part
        finally:
            del pending[:at]

    def _check(self, size: int) -> None:
        if size > self.frame_bytes_max:
            raise MessageError(
                f"it sends a frame of {size} bytes, more than {self.frame_bytes_max}"
            )
        if self._parts_bytes + size > self.body_bytes_max or len(self._parts) > PARTS_MAX:
            raise MessageError(f"it sends a message of more than {self.body_bytes_max} bytes")
