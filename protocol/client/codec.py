"""Encodes requests and decodes answers; repeated ones are encoded and decoded only once.

A load generator that spends its time in codecs is late, and then measures its own delay. A member's
heartbeat is the same each time, and so is its answer: only the correlation id differs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from protocol.client.frames import with_number
from protocol.wire.frames import decode_response, encode_request

if TYPE_CHECKING:
    from kio.static.protocol import RequestPayload

FIND_COORDINATOR, HEARTBEAT, CONSUMER_GROUP_HEARTBEAT = 10, 12, 68
REPEATED: Final = frozenset({FIND_COORDINATOR, HEARTBEAT, CONSUMER_GROUP_HEARTBEAT})
REMEMBERED_MAX: Final = 32_768
"""Number of cached requests, and of cached answers: one heartbeat per member and generation."""


def encode(message: RequestPayload, version: int, correlation_id: int, client_id: str) -> bytes:
    """Encode a request with its length."""
    key = message.__api_key__
    if key not in REPEATED:
        return encode_request(key, version, correlation_id, client_id, message)
    frame = _encoded(key, version, client_id, message)  # type: ignore[arg-type]  # it is frozen
    return with_number(frame, correlation_id)


def decode(api_key: int, version: int, frame: bytes) -> Any:
    """Decode an answer, given without its length; raises ``BadFrame``."""
    if api_key not in REPEATED:
        return decode_response(api_key, version, frame)[1]
    return _decoded(api_key, version, frame[4:])


@lru_cache(maxsize=REMEMBERED_MAX)
def _encoded(key: int, version: int, client_id: str, message: RequestPayload) -> bytes:
    return encode_request(key, version, 0, client_id, message)


@lru_cache(maxsize=REMEMBERED_MAX)
def _decoded(key: int, version: int, body: bytes) -> Any:
    return decode_response(key, version, bytes(4) + body)[1]
