"""Conversations of real members that go wrong at a random step.

A conversation is the life of one member: it joins, takes its assignment, commits, leaves, and uses
the ids that the coordinator gave it. Before it starts, its steps are changed in one or more of the
ways of :data:`WAYS`; some conversations remain as planned, so that the groups have members at all.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bench.load.hostile_counts import CONVERSATIONS, PATIENCE_S, TALKED
from bench.load.hostile_frames import Writer, flip
from bench.load.hostile_members import HOSTILE_KINDS
from protocol.client import codec
from protocol.client.frames import by_frame
from protocol.client.versions import version_of
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import BadFrame, FrameError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.client.reactor import Channel
    from bench.load.hostile_counts import Address, HostileCounts

    Connect = Callable[[Address, Callable[[], None]], Channel]
    Make = Callable[[Any], Any]

SPEAKERS: Final = 40
"""Conversations at a time with each coordinator."""

CLIENT_ID: Final = "hostile"
AS_PLANNED, WRONG_ORDER, REPEATED = "as_planned", "in_wrong_order", "repeated"
CHANGED_FIELD, CHANGED_BYTES = "with_a_changed_field", "with_changed_bytes"
OTHER_CONNECTION: Final = "on_another_connection"
UNCHANGED_SHARE: Final = 0.15
REPEATS: Final = (2, 3, 20)
KEPT: Final = 64
"""How many values of each field are kept, for other conversations to use."""

IDS: Final = (
    "group_id", "member_id", "generation_id", "generation_id_or_member_epoch", "member_epoch",
    "group_instance_id", "instance_id",
)  # fmt: skip
"""The fields that may get the value that another conversation has sent in it."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One request of a conversation, and in which way it is sent."""

    make: Make
    way: str = AS_PLANNED
    repeats: int = 1


def wrong_order(draw: random.Random, steps: list[PlannedStep]) -> None:
    """Move a step to another place, or leave it out."""
    moved = replace(steps.pop(draw.randrange(len(steps))), way=WRONG_ORDER)
    if draw.random() < 0.7:
        steps.insert(draw.randrange(len(steps) + 1), moved)
    elif steps:
        at = draw.randrange(len(steps))
        steps[at] = replace(steps[at], way=WRONG_ORDER)


def repeated(draw: random.Random, steps: list[PlannedStep]) -> None:
    """Send a step several times, without waiting for an answer."""
    _mark(draw, steps, REPEATED, draw.choice(REPEATS))


def _mark(draw: random.Random, steps: list[PlannedStep], way: str, repeats: int = 1) -> None:
    at = draw.randrange(len(steps))
    steps[at] = replace(steps[at], way=way, repeats=repeats)


WAYS: Final[Mapping[str, Callable[[random.Random, list[PlannedStep]], None]]] = {
    WRONG_ORDER: wrong_order,
    REPEATED: repeated,
    CHANGED_FIELD: partial(_mark, way=CHANGED_FIELD),
    CHANGED_BYTES: partial(_mark, way=CHANGED_BYTES),
    OTHER_CONNECTION: partial(_mark, way=OTHER_CONNECTION),
}
"""How a conversation goes wrong."""


def plan(draw: random.Random, makes: Sequence[Make]) -> list[PlannedStep]:
    """Return the steps of a conversation, most of the time changed."""
    steps = [PlannedStep(make) for make in makes]
    if draw.random() < UNCHANGED_SHARE:
        return steps
    for _ in range(draw.choice((1, 1, 2, 3))):
        draw.choice(CHANGES)(draw, steps)
    return steps


CHANGES: Final = tuple(WAYS.values())


class SeenValues:
    """The values that conversations have sent lately, by the field's name."""

    def __init__(self) -> None:
        self._by_name: dict[str, deque[Any]] = {name: deque(maxlen=KEPT) for name in IDS}

    def add(self, message: Any) -> None:
        """Remember a message's ids."""
        for name, seen in self._by_name.items():
            if (value := getattr(message, name, None)) is not None:
                seen.append(value)

    def draw(self, draw: random.Random, name: str) -> Any:
        """Return one of them; None if there is none."""
        seen = self._by_name.get(name)
        return draw.choice(seen) if seen else None


def changed_field(writer: Writer, seen: SeenValues, message: Any, api_key: int) -> Any:
    """Return a message with another value in one of its fields, or in a field within it."""
    draw = writer.random
    column = draw.choice(fields(message))
    value = getattr(message, column.name)
    if is_dataclass(value):
        value = changed_field(writer, seen, value, api_key)
    elif isinstance(value, tuple) and value and is_dataclass(value[0]) and draw.random() < 0.7:
        at = draw.randrange(len(value))
        value = (*value[:at], changed_field(writer, seen, value[at], api_key), *value[at + 1 :])
    else:
        other = seen.draw(draw, column.name) if draw.random() < 0.5 else None
        value = writer.value(column, api_key) if other is None else other
    return replace(message, **{column.name: value})


class Conversations:
    """Conversations with all coordinators, that together send at most ``due()`` frames in total."""

    def __init__(
        self,
        connect: Connect,
        count: HostileCounts,
        groups: Mapping[Address, Sequence[str]],
        due: Callable[[], float],
        seed: int,
    ) -> None:
        """Open all connections; ``groups`` are those that each coordinator answers for."""
        self.count = count
        self.connect = connect
        self.writer = Writer(seed)
        self.seen = SeenValues()
        self.addresses = list(groups)
        self.sent = self.answered = 0
        self.now_s = 0.0
        self.waiting: deque[HostileSpeaker] = deque()
        self._due = due
        self._speakers = [
            HostileSpeaker(self, address, groups[address])
            for address in groups
            for _ in range(SPEAKERS)
        ]

    def turn(self, now_s: float) -> None:
        """Let the conversations go on that are due."""
        self.now_s = now_s
        due = self._due()
        while self.waiting and self.sent < due:
            self.sent += self.waiting.popleft().go_on()

    def tick(self) -> None:
        """Let those give up that have waited too long."""
        for speaker in self._speakers:
            speaker.tick()

    def frames(self, step: PlannedStep, member: Any) -> Iterator[tuple[bytes, int, int]]:
        """Return a step's frames, each with its API key and version."""
        message = step.make(member)
        api_key, version = message.__api_key__, version_of(message)
        draw = self.writer.random
        for _ in range(step.repeats):
            told = message
            if step.way == CHANGED_FIELD:
                told = changed_field(self.writer, self.seen, message, api_key)
            number = draw.getrandbits(31)
            try:
                frame = codec.encode(told, version, number, CLIENT_ID)
            except (ValueError, TypeError, OverflowError, AttributeError, struct.error):
                # a value that this version cannot encode
                frame = codec.encode(message, version, number, CLIENT_ID)
                frame = flip(draw, frame)
            if step.way == CHANGED_BYTES:
                frame = flip(draw, frame)
            yield frame, api_key, version
        self.seen.add(message)


class HostileSpeaker:
    """One conversation after the other, on one connection; for some steps on another one."""

    def __init__(self, of: Conversations, address: Address, group_ids: Sequence[str]) -> None:
        self._of = of
        self._group_ids = group_ids
        self._kinds = list(HOSTILE_KINDS)
        self._steps: deque[PlannedStep] = deque()
        self._member: Any = None
        self._since_s = 0.0
        other = of.addresses[(of.addresses.index(address) + 1) % len(of.addresses)]
        self._lines = [_Line(self, address), _Line(self, other)]
        of.waiting.append(self)

    @property
    def _waits(self) -> bool:
        return any(line.asked for line in self._lines)

    def connect(self, address: Address, broken: Callable[[], None]) -> Channel:
        """Open a connection."""
        return self._of.connect(address, broken)

    def go_on(self) -> int:
        """Take the next step; return how many frames that sent."""
        if not self._steps:
            self._begin()
        step = self._steps.popleft()
        line = self._lines[step.way == OTHER_CONNECTION]
        self._since_s = self._of.now_s
        for frame, api_key, version in self._of.frames(step, self._member):
            line.send(frame, api_key, version)
        self._of.count.sent[f"{TALKED}_{step.way}"] += step.repeats
        self._of.count.distinct += step.repeats
        return step.repeats

    def _begin(self) -> None:
        draw = self._of.writer.random
        number = draw.randrange(len(self._group_ids))
        kind = HOSTILE_KINDS[self._kinds[number % len(self._kinds)]]
        self._member = kind.make(draw, self._group_ids[number])
        self._steps.extend(plan(draw, kind.steps))
        self._of.count.sent[CONVERSATIONS] += 1

    def heard(self, frame: bytes, api_key: int, version: int) -> None:
        """Take an answer; what cannot be read is the answer to a frame that could not, either."""
        self._of.count.answered += 1
        self._of.answered += 1
        try:
            answer = codec.decode(api_key, version, frame)
        except (BadFrame, FrameError):
            answer = None
        if hasattr(answer, "error_code"):
            self._member.learn(api_key, answer)
            self._of.count.succeeded[api_key] += answer.error_code is ErrorCode.none
        self.rest()

    def rest(self) -> None:
        """Go on when it is due, if nothing is unanswered."""
        if not self._waits:
            self._of.waiting.append(self)

    def lost(self, unanswered: int) -> None:
        """Count a connection that a coordinator closed; go on with the next step."""
        if unanswered:
            self._of.count.closed_on_us += 1
            self.rest()

    def tick(self) -> None:
        """Give up this conversation if it has waited too long."""
        if self._waits and self._of.now_s - self._since_s > PATIENCE_S:
            self._of.count.gave_up += 1
            self._steps.clear()
            for line in self._lines:
                line.reopen()
            self.rest()


class _Line:
    """A connection, and what was asked on it: answers come in the order of the requests."""

    def __init__(self, speaker: HostileSpeaker, address: Address) -> None:
        self.asked: deque[tuple[int, int]] = deque()
        self._speaker = speaker
        self._address = address
        self._open()

    def _open(self) -> None:
        self._channel = self._speaker.connect(self._address, self._broken)
        self._channel.received = by_frame(self._received)
        self.asked.clear()

    def reopen(self) -> None:
        """Close it and open it again."""
        self._channel.close()
        self._open()

    def send(self, frame: bytes, api_key: int, version: int) -> None:
        """Send a request."""
        self.asked.append((api_key, version))
        self._channel.send(frame)

    def _received(self, frame: bytes) -> None:
        if self.asked:
            self._speaker.heard(frame, *self.asked.popleft())

    def _broken(self) -> None:
        unanswered = len(self.asked)
        self._open()
        self._speaker.lost(unanswered)
