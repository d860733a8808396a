"""Frames that no well-behaved client sends, generated from the schemas of all served APIs.

Most frames keep their connection open: they can be decoded, and the request is refused or
pointless. *Rough* frames are invalid bytes, and close the connection.

Requests that would rightly disturb others use only our own names: groups and topics that start with
``hostile``, and configs that brokers do not have.
"""

from __future__ import annotations

import random
import struct
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from protocol.wire.apis import API, Route
from protocol.wire.convert import unwrap
from protocol.wire.embedded import encode_assignment, encode_subscription
from protocol.wire.errors import ErrorCode
from protocol.wire.kafka_4_4.index import request_shape
from protocol.wire.writers import encoder

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field

PREFIX: Final = "hostile"
GROUPS: Final = 300
TOPICS: Final = 60
LENGTH: Final = struct.Struct(">i")
HEADER: Final = struct.Struct(">hhih")

ODD_TEXTS: Final = (
    "", "\0", " ", "..", "/", "*", "(", "(a|a)*b", "a" * 249, "a" * 250, "x" * 32_767, "%s%n",
    "\u202e", "é" * 100, "\U0001f4a5" * 50, "__consumer_offsets", "'; --", "((((a{9}){9}){9}){9})",
)  # fmt: skip
TOPIC_NAMES: Final = ("name", "topic", "topics", "topic_name", "subscribed_topic_names")
SMALL: Final = (-2, -1, 0, 1, 2, 3, 7, 127)
CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "int8": (*SMALL, -(2**7)),
    "int16": (*SMALL, -(2**15), 2**15 - 1),
    "int32": (*SMALL, -(2**31), 2**31 - 1),
    "int64": (*SMALL, -(2**63), 2**63 - 1),
    "uint16": (0, 1, 65_535),
    "float64": (0.0, -1.0, 1e308),
    "bool": (False, True),
    "error_code": tuple(ErrorCode),
    "datetime_i64": (None, datetime(2026, 1, 1, tzinfo=UTC)),
}
"""Values by Kafka's types, including the edge cases."""
NAMED_CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "acks": (-1, 1) * 50 + (0,),  # 0 requests no answer and closes the connection
    "resource_type": (2, 32, 4, 0, 127),
}


class Writer:
    """Draws random messages of any schema."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def frame(self, api_key: int) -> bytes:
        """Return a request of an API in one of its versions, without its length."""
        api = API[api_key]
        while True:
            version = self.random.randint(api.min_version, api.max_version)
            shape = request_shape(api_key, version)
            try:
                body = encoder(shape)(self._message(shape, api_key))
            except (ValueError, TypeError, OverflowError, struct.error):
                continue  # a value that this version cannot encode
            return self.header(api_key, version, flexible=shape.__flexible__) + body

    def header(self, api_key: int, version: int, *, flexible: bool) -> bytes:
        """Return a request's header with any client id."""
        draw = self.random
        name = draw.choice((None, b"", b"hostile", b"c" * 200, "é".encode()))
        size = -1 if name is None else len(name)
        header = HEADER.pack(api_key, version, draw.randint(-(2**31), 2**31 - 1), size)
        return header + (name or b"") + (self._tags() if flexible else b"")

    def _tags(self) -> bytes:
        """Return tagged fields; mostly none, as in other clients' requests."""
        return b"\0" if self.random.random() < 0.9 else self.unknown_tags()

    def unknown_tags(self) -> bytes:
        """Return tagged fields that no schema has."""
        rows = self.random.choice((1, 2, 50))
        row = bytes((self.random.randint(60, 127), 3)) + b"tag"
        return bytes((rows,)) + row * rows

    def _message(self, shape: type, api_key: int) -> Any:
        values = {each.name: self.value(each, api_key) for each in fields(shape)}
        return shape(**values)

    def value(self, column: Field[Any], api_key: int) -> Any:
        """Return a value for a field of a request."""
        kind, is_array, nullable = unwrap(column)
        if nullable and self.random.random() < 0.2:
            return None

        def one() -> Any:
            if is_dataclass(kind):
                assert isinstance(kind, type)
                return self._message(kind, api_key)
            return self._primitive(column.name, column.metadata["kafka_type"], api_key)

        if not is_array:
            return one()
        size = self.random.choices((0, 1, 2, 5, 40), (2, 6, 2, 1, 0.2))[0]
        return tuple(one() for _ in range(size))

    def _primitive(self, name: str, kind: str, api_key: int) -> Any:
        draw = self.random
        if kind == "string":
            return self._text(name, api_key)
        if kind in ("bytes", "records"):
            return draw.choice(self._blobs())
        if kind == "uuid":
            return draw.choice((None, UUID(int=draw.getrandbits(128), version=4)))
        if kind.startswith("timedelta"):
            return timedelta(milliseconds=draw.choice((-1, 0, 1, 6_000, 10_000, 2**31 - 1)))
        return draw.choice(NAMED_CHOICES.get(name) or CHOICES[kind])

    def _text(self, name: str, api_key: int) -> str:
        draw = self.random
        if name == "resource_name":  # no such broker: real configs would affect all
            return draw.choice((f"{PREFIX}-topic-1", f"{PREFIX}-1", "999", "x"))
        if draw.random() < 0.05 and API[api_key].route is not Route.CATALOG:
            return draw.choice(ODD_TEXTS)
        number = draw.randrange(GROUPS)
        if name in TOPIC_NAMES:
            return f"{PREFIX}-topic-{number % TOPICS}"
        if "member" in name:
            return draw.choice(("", "member", f"{PREFIX}-member-{number % 50}"))
        if "group" in name or "key" in name:
            return f"{PREFIX}-{number}"
        return draw.choice(("consumer", "range", "uniform", "a.*", "instance", "r"))

    def _blobs(self) -> tuple[bytes, ...]:
        draw = self.random
        topic = f"{PREFIX}-topic-{draw.randrange(TOPICS)}"
        return (
            b"", b"\0", b"\xff" * 8, draw.randbytes(draw.choice((40, 40, 40, 40, 5_000))),
            encode_subscription((topic,)), encode_assignment([(topic, 0)]),
            encode_subscription((topic,))[:-1],
        )  # fmt: skip


def with_length(frame: bytes) -> bytes:
    """Prepend a frame's length to it."""
    return LENGTH.pack(len(frame)) + frame


def flip(draw: random.Random, frame: bytes) -> bytes:
    """Change some bytes after the header."""
    changed = bytearray(frame)
    for _ in range(draw.choice((1, 1, 2, 8))):
        changed[draw.randrange(min(14, len(frame) - 1), len(frame))] = draw.randrange(256)
    return bytes(changed)


def _cut(draw: random.Random, frame: bytes) -> bytes:
    """Remove the end, or bytes in the middle."""
    body = frame[4:]
    at = draw.randrange(len(body))
    return with_length(body[:at] + body[at + draw.choice((1, 2, 10_000)) :])


def _insert(draw: random.Random, frame: bytes) -> bytes:
    """Insert bytes into the middle: this changes the lengths, counts and nulls that follow."""
    body = frame[4:]
    at = draw.randrange(min(10, len(body)), len(body) + 1)
    junk = draw.choice((b"\xff", b"\xff\xff\xff\xff\x0f", b"\x80" * 12, b"\x7f\xff\xff\xff"))
    return with_length(body[:at] + junk + body[at:])


def _wrong_api(draw: random.Random, frame: bytes) -> bytes:
    """Use an API or a version that does not exist."""
    key = draw.choice((-1, 1_000, 32_767, *API))
    version = draw.choice((-1, 99, 32_767))
    return frame[:4] + struct.pack(">hh", key, version) + frame[8:]


def _wrong_length(draw: random.Random, frame: bytes) -> bytes:
    """Claim another length."""
    claimed = draw.choice((-1, -(2**31), 2**31 - 1, 104_857_601, 0, 3, len(frame) - 20))
    return LENGTH.pack(claimed) + frame[4:]


def _garbage(draw: random.Random, _frame: bytes) -> bytes:
    """Return random bytes."""
    return draw.choice(
        (
            b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            draw.randbytes(200), with_length(draw.randbytes(100)), with_length(b""), b"\0" * 64,
        )
    )  # fmt: skip


def _claim(draw: random.Random, frame: bytes) -> bytes:
    """Claim millions of elements somewhere in the frame."""
    body = bytearray(frame[4:])
    at = draw.randrange(min(10, len(body) - 1), len(body))
    claim = draw.choice((b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"))
    body[at : at + len(claim)] = claim
    return with_length(bytes(body))


def _large(draw: random.Random, frame: bytes) -> bytes:
    """Append a megabyte of zeros."""
    return with_length(frame[4:] + bytes(draw.choice((70_000, 1_000_000))))


WHOLE: Final[tuple[Callable[[random.Random, bytes], bytes], ...]] = (
    flip, flip, flip, _cut, _cut, _insert, _insert, _wrong_api, _claim, _claim,
)  # fmt: skip
"""The ways to be invalid that leave a frame its length."""

ROUGH: Final = (*WHOLE, _wrong_length, _garbage, _large)
"""The ways to be invalid; entries that appear more often are chosen more often."""
