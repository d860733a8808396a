"""Pools of hostile frames: any from the schemas, and bursts of mutated requests of real members.

A pool is made from a seed and its frames are sent several times: a generator that wrote each frame
would be slower than the servers. Another process makes the next pool (:func:`more_pools`).

The bursts are for the coordinator of one group. They are made of valid requests of its members,
which are decoded, changed by their schema in one of the ways of :data:`MUTATIONS` or more, and
encoded again. Most can be refused without a write: a group that a frame had really changed would
refuse all later frames for one and the same reason, and a write costs as much as many refusals.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from bench.load.hostile_conversations import SeenValues, changed_field
from bench.load.hostile_counts import BY_SCHEMA, CHANGED_BYTES, REPEATED
from bench.load.hostile_frames import LENGTH, ODD_TEXTS, ROUGH, WHOLE, Writer, with_length
from bench.load.hostile_members import HEARTBEATS
from bench.load.side_process import side_process
from protocol.members.requests import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, OFFSET_COMMIT
from protocol.wire.apis import API
from protocol.wire.convert import unwrap
from protocol.wire.frames import BadFrame, decode_request
from protocol.wire.versions import UnsupportedVersionError, request_plan
from protocol.wire.writers import encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

BURSTS: Final = 200
"""How many bursts are made for each group."""

BURST_SIZE: Final = 50
REPEATED_HEARTBEATS: Final = 20
"""So many frames of a burst are valid heartbeats, which keep the group's members alive."""

COUNTS: Final = (0, 0, 2, 2, 2, 3, 3, 30)
"""An array that is not empty is repeated so many times."""

COMMITTED_SHARE: Final = 0.1
"""This share of the commits may be valid; the generation of all others is over, or never was."""

JOINED_SHARE: Final = 0.02
"""This share of the first heartbeats of groups with epochs joins."""

AT_API: Final = slice(4, 6)
HEARTBEAT_KEY: Final = HEARTBEAT.to_bytes(2, "big")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Burst:
    """Frames to send at once, and how many of each kind they are."""

    frames: bytes
    kinds: Counter[str]
    size: int


def _content(frame: bytes) -> bytes:
    """Return a frame without its correlation id."""
    return frame[:8] + frame[12:]


@cache
def _columns(shape: type) -> tuple[tuple[str, Any, bool, bool, str], ...]:
    """Return each field's name, type, whether it is an array or nullable, and Kafka's type."""
    found = []
    for each in fields(shape):
        kind, is_array, nullable = unwrap(each)
        found.append((each.name, kind, is_array, nullable, each.metadata.get("kafka_type", "")))
    return tuple(found)


def _places(message: Any, wanted: str, path: Path = ()) -> list[Path]:
    """Return where a message has fields that are ``null``, ``count`` or ``text``, at any depth.

    Of an array's elements only the first counts.
    """
    found: list[Path] = []
    for name, kind, is_array, nullable, kafka_type in _columns(message.__class__):
        value, here = getattr(message, name), (*path, name)
        is_place = {
            "null": nullable and value is not None,
            "count": is_array and bool(value),
            "text": kafka_type == "string" and not is_array,
        }
        if is_place[wanted]:
            found.append(here)
        if value and is_dataclass(kind):
            found += _places(value[0] if is_array else value, wanted, here)
    return found


def _put(message: Any, path: Path, value: Any) -> Any:
    """Return a message with another value in one place."""
    name, *rest = path
    if rest:
        old = getattr(message, name)
        if isinstance(old, tuple):
            value = (_put(old[0], tuple(rest), value), *old[1:])
        else:
            value = _put(old, tuple(rest), value)
    return replace(message, **{name: value})


def _get(message: Any, path: Path) -> Any:
    for name in path:
        message = getattr(message[0] if isinstance(message, tuple) else message, name)
    return message


class Mutator:
    """Mutates the valid requests of one group's members."""

    def __init__(self, writer: Writer, frames: Sequence[bytes]) -> None:
        """``frames`` are the requests, with their lengths."""
        self.writer = writer
        self.random = writer.random
        self.seen = SeenValues()
        self._requests = [decode_request(frame[LENGTH.size :]) for frame in frames]
        self._valid = {each.message for each in self._requests}
        for each in self._requests:
            self.seen.add(each.message)
        beats = [each.message for each in self._requests if each.api_key == HEARTBEAT]
        self._member_ids = {"", *(beat.member_id for beat in beats)}
        self._group_ids = {beat.group_id for beat in beats}
        self._frames = frames
        self._made = set(map(_content, frames))
        self._repeated = [frame for frame in frames if frame[AT_API] == HEARTBEAT_KEY]

    def burst(self) -> Burst:
        """Return a burst whose last frame has wrong bytes, so that it may close the connection."""
        draw = self.random
        rows = [(REPEATED, draw.choice(self._repeated)) for _ in range(REPEATED_HEARTBEATS)]
        rows += [self.mutated() for _ in range(BURST_SIZE - len(rows) - 1)]
        draw.shuffle(rows)
        rows.append((CHANGED_BYTES, draw.choice(WHOLE)(draw, draw.choice(self._frames))))
        kinds = Counter(kind for kind, _ in rows)
        return Burst(b"".join(frame for _, frame in rows), kinds, len(rows))

    def mutated(self) -> tuple[str, bytes]:
        """Return a new frame that can be decoded but is not valid by chance, and its kind."""
        draw = self.random
        while True:
            request = draw.choice(self._requests)
            way = draw.choice(WAYS)
            told = request.message
            with suppress(*UNWRITABLE):
                told = MUTATIONS[way](self, told, request.api_key)
                if draw.random() < 0.3:
                    told = MUTATIONS["field"](self, told, request.api_key)
                told = self._refusable(told, request.api_key)
                version = request.api_version
                if way == "version":
                    api = API[request.api_key]
                    version = draw.randint(api.min_version, api.max_version)
                frame = self._encoded(told, request.api_key, version, has_tags=way == "tags")
                is_valid = decode_request(frame).message in self._valid
                whole = with_length(frame)
                content = _content(whole)
                if content not in self._made and (way == "tags" or not is_valid):
                    self._made.add(content)
                    return f"{BY_SCHEMA}_{way}", whole

    def _encoded(self, message: Any, api_key: int, version: int, *, has_tags: bool) -> bytes:
        shape_plan = request_plan(api_key, version)
        shape = shape_plan.shape
        body = encoder(shape)(shape_plan.down(message))
        if has_tags:
            if not shape.__flexible__ or not body.endswith(b"\0"):
                raise ValueError("no place for a tagged field")
            body = body[:-1] + self.writer.unknown_tags()
        return self.writer.header(api_key, version, flexible=shape.__flexible__) + body

    def _refusable(self, message: Any, api_key: int) -> Any:
        """Return the message such that it changes the group rarely, or not at all."""
        draw = self.random
        if api_key == JOIN_GROUP and message.member_id in self._member_ids:
            return replace(message, member_id=self._gone())
        if api_key == LEAVE_GROUP:
            members = (
                replace(each, member_id=self._gone())
                if each.member_id in self._member_ids
                else each
                for each in message.members
            )
            return replace(message, members=tuple(members))
        if api_key == OFFSET_COMMIT and draw.random() > COMMITTED_SHARE:
            return replace(message, generation_id_or_member_epoch=self._other_generation(message))
        if (
            api_key in HEARTBEATS
            and message.member_epoch <= 0
            and (message.group_id in self._group_ids or draw.random() > JOINED_SHARE)
        ):
            return replace(message, member_epoch=draw.choice((1, 2, 7, 2**31 - 1)))
        return message

    def _gone(self) -> str:
        """Return the id of a member that has never been there."""
        return f"gone-{self.random.getrandbits(32):x}"

    def _other_generation(self, message: Any) -> int:
        mine: int = message.generation_id_or_member_epoch
        return self.random.choice(
            (mine + 1 if mine < 2**31 - 1 else 3, max(mine - 1, 0), 2**31 - 1)
        )

    def other_ids(self, message: Any, api_key: int) -> Any:
        """Put the ids of other members and generations, or of none, into their fields."""
        draw = self.random
        told = {}
        for name, *_ in _columns(message.__class__):
            value = getattr(message, name)
            if name in ("member_id", "group_id", "instance_id", "group_instance_id"):
                other = self.seen.draw(draw, name)
                told[name] = draw.choice((value, value, other, self._gone()))
            elif name in GENERATIONS:
                told[name] = max(min(value + draw.choice((-1, 0, 1, 1_000)), 2**31 - 1), -1)
        return replace(message, **told) if told else self.changed(message, api_key)

    def changed(self, message: Any, api_key: int) -> Any:
        """Change any field."""
        return changed_field(self.writer, self.seen, message, api_key)

    def null(self, message: Any, _api_key: int) -> Any:
        """Put null where the schema permits it."""
        return self._changed_at(message, "null", lambda _: None)

    def counted(self, message: Any, _api_key: int) -> Any:
        """Empty an array, or repeat its elements."""
        times = self.random.choice(COUNTS)
        return self._changed_at(message, "count", lambda value: value * times)

    def odd_text(self, message: Any, _api_key: int) -> Any:
        """Put an odd, empty or large string somewhere."""
        return self._changed_at(message, "text", lambda _: self.random.choice(ODD_TEXTS))

    def _changed_at(self, message: Any, wanted: str, make: Callable[[Any], Any]) -> Any:
        places = _places(message, wanted)
        if not places:
            raise ValueError("no such place")
        path = self.random.choice(places)
        return _put(message, path, make(_get(message, path)))

    def unchanged(self, message: Any, _api_key: int) -> Any:
        """Leave the fields: something else is changed."""
        return message


MUTATIONS: Final = {
    "ids": Mutator.other_ids, "field": Mutator.changed, "null": Mutator.null,
    "count": Mutator.counted, "text": Mutator.odd_text, "tags": Mutator.unchanged,
    "version": Mutator.changed,
}  # fmt: skip
"""The ways to change a valid request by its schema. ``tags`` adds unknown tagged fields;
``version`` writes a changed field in any version of the API."""

WAYS: Final = (*MUTATIONS, "ids", "tags", "tags")
"""The ways to draw from. Unknown tags are ignored, so that these requests get furthest."""

GENERATIONS: Final = ("generation_id", "generation_id_or_member_epoch", "member_epoch")
UNWRITABLE: Final = (
    ValueError, TypeError, OverflowError, AttributeError, struct.error, BadFrame,
    UnsupportedVersionError,
)  # fmt: skip
"""What is raised for a value that a version cannot encode, or that no server reads."""


class Pool:
    """Frames to send repeatedly; each includes its length prefix."""

    def __init__(self, seed: int, size: int, floods: Sequence[Sequence[bytes]] = ()) -> None:
        """``size`` is the number of valid frames; ``floods`` are requests of members by group."""
        writer = Writer(seed)
        self.random = writer.random
        keys = list(API)
        weights = [API[key].weight for key in keys]
        chosen = self.random.choices(keys, weights, k=size)
        self.valid = [with_length(writer.frame(key)) for key in chosen]
        mutators = [Mutator(writer, frames) for frames in floods]
        self.floods = [[each.burst() for _ in range(BURSTS)] for each in mutators]
        """Bursts for each group."""

    def bursts(self, size: int) -> list[bytes]:
        """Return all valid frames, in rows of ``size`` in any order."""
        frames = self.random.sample(self.valid, len(self.valid))
        return [b"".join(frames[at : at + size]) for at in range(0, len(frames), size)]

    def rough(self) -> bytes:
        """Return a new frame that is invalid in one of the ways of ``ROUGH``."""
        return self.random.choice(ROUGH)(self.random, self.random.choice(self.valid))

    def half(self) -> bytes:
        """Return a frame whose end is missing."""
        frame = self.rough()
        return LENGTH.pack(len(frame) + 1_000) + frame


@contextmanager
def more_pools(
    seed: int, size: int, floods: Sequence[Sequence[bytes]] = ()
) -> Iterator[Connection]:
    """Make pools in another process, with CPU time that no other process wants; yield their pipe.

    It is never more than one pool ahead.
    """
    with side_process(_make_pools, seed, size, floods) as pipe:
        yield pipe


def _make_pools(seed: int, size: int, floods: Sequence[Sequence[bytes]], pipe: Connection) -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    pipe.send("ready")
    send_pools(seed, size, floods, pipe)


def send_pools(seed: int, size: int, floods: Sequence[Sequence[bytes]], pipe: Connection) -> None:
    """Make pools and send them, until the other end is closed."""
    with suppress(OSError):
        for number in count(seed):
            pipe.send(Pool(number, size, floods))
