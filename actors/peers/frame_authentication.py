"""Authenticates the frames that follow a link's handshake, each direction with its own key.

The sender's bytes are cut into frames of bounded size. Each frame ends with a digest, by keyed
BLAKE2b, of its number and its bytes. Numbers start at 0 on each link and are not sent, so a frame
that was changed, left out, repeated or moved has a wrong digest, and so has a frame of another link
or of the other direction.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from actors.peers.handshake import RefusedError
from storage.peer_packing import FRAME_BYTES_MAX, LENGTH_BYTES

DIGEST_BYTES: Final = 16
NUMBER_BYTES: Final = 8

CONTENT_BYTES_MAX: Final = LENGTH_BYTES + FRAME_BYTES_MAX
"""The most bytes that one digest covers; a frame of :mod:`storage.peer_packing` fits."""

SIGNED_BYTES_MAX: Final = CONTENT_BYTES_MAX + DIGEST_BYTES
"""The largest frame on an open link, without its length."""


class _Digests:
    """The digests of one direction of one link, in order."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hashlib.blake2b(key=key, digest_size=DIGEST_BYTES)
        self._number = 0

    def next(self, content: bytes | memoryview) -> bytes:
        """Return the digest of the next frame."""
        digest = self._keyed.copy()
        digest.update(self._number.to_bytes(NUMBER_BYTES, "big"))
        digest.update(content)
        self._number += 1
        return digest.digest()


class FrameSigner:
    """Makes the frames of one direction of one link."""

    def __init__(self, key: bytes) -> None:
        self._digests = _Digests(key)

    def signed(self, data: bytes) -> bytes:
        """Return these bytes in one frame, or in several if they are too long for one."""
        if len(data) <= CONTENT_BYTES_MAX:
            length = (len(data) + DIGEST_BYTES).to_bytes(LENGTH_BYTES, "big")
            return b"".join((length, data, self._digests.next(data)))
        view = memoryview(data)
        cuts = range(0, len(data), CONTENT_BYTES_MAX)
        parts: list[bytes | memoryview] = []
        for content in (view[at : at + CONTENT_BYTES_MAX] for at in cuts):
            length = (len(content) + DIGEST_BYTES).to_bytes(LENGTH_BYTES, "big")
            parts += (length, content, self._digests.next(content))
        return b"".join(parts)


class FrameVerifier:
    """Checks the frames of one direction of one link."""

    def __init__(self, key: bytes) -> None:
        self._digests = _Digests(key)

    def verified(self, frame: bytes) -> bytes:
        """Return the bytes of the next frame, which comes without its length.

        Raises :class:`RefusedError` if it is not the next frame that the other end sent.
        """
        content = memoryview(frame)[:-DIGEST_BYTES]
        if not hmac.compare_digest(frame[-DIGEST_BYTES:], self._digests.next(content)):
            raise RefusedError("a frame is not what its peer sent next: it was changed on the way")
        return bytes(content)
