"""What thousands of simulated clients say and hear again and again is written and read once.

A load that spends its time in codecs is late itself, and measures that: a heartbeat of one member
is the same each time, and so are the answers; all that differs is the correlation id.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from bench.client.asking import version_of
from bench.client.frames import LENGTH, with_number
from protocol.wire.frames import decode_response, encode_request

if TYPE_CHECKING:
    from kio.static.protocol import RequestPayload

FIND_COORDINATOR, HEARTBEAT, CONSUMER_GROUP_HEARTBEAT = 10, 12, 68
REPEATED: Final = frozenset({FIND_COORDINATOR, HEARTBEAT, CONSUMER_GROUP_HEARTBEAT})
REMEMBERED: Final = 32_768
"""So many requests and as many answers: a member's heartbeat is one while its generation lasts."""


def encode(message: RequestPayload, number: int, client_id: str) -> bytes:
    """Write a request with its length; ``number`` is its correlation id."""
    key, version = message.__api_key__, version_of(message)
    if key not in REPEATED:
        return encode_request(key, version, number, client_id, message)
    frame = _encoded(key, version, client_id, message)  # type: ignore[arg-type]  # it is frozen
    return with_number(frame, LENGTH.pack(number))


def decode(message: RequestPayload, frame: bytes) -> Any:
    """Read the answer to ``message``, given without its length."""
    key, version = message.__api_key__, version_of(message)
    if key not in REPEATED:
        return decode_response(key, version, frame)[1]
    return _decoded(key, version, frame[4:])


@lru_cache(maxsize=REMEMBERED)
def _encoded(key: int, version: int, client_id: str, message: RequestPayload) -> bytes:
    return encode_request(key, version, 0, client_id, message)


@lru_cache(maxsize=REMEMBERED)
def _decoded(key: int, version: int, body: bytes) -> Any:
    return decode_response(key, version, bytes(4) + body)[1]
