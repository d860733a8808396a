"""Sends requests in a closed loop or paced, whose responses differ only in the correlation id.

Heartbeats and one-partition commits are such requests: each frame is encoded once and sent with its
correlation id patched in, and a response must equal the expected one byte for byte.
"""

from __future__ import annotations

import struct
import time
from array import array
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from protocol.client.frames import CORRELATION_AT, LENGTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.client.reactor import Channel, Reactor

NUMBERED: Final = struct.Struct(">ii")
ANSWER_SECONDS_MAX: Final = 30


class AnswerError(Exception):
    """A response differs from the expected one, or is missing."""


@dataclass(slots=True, eq=False)
class RepeatedRequest:
    """A frame to send repeatedly, and its expected response.

    ``counts_at`` is the position of an int64 in it that grows with every sending, if any: the
    offset of a commit, as no consumer commits the same offset twice.
    """

    frame: bytearray
    answer: bytes
    counts_at: int | None = None

    def numbered(self, number: int) -> bytearray:
        """Return the frame with its correlation id (and its counter) set to ``number``."""
        LENGTH.pack_into(self.frame, CORRELATION_AT, number)
        if self.counts_at is not None:
            struct.pack_into(">q", self.frame, self.counts_at, number)
        return self.frame


class Pipeline:
    """A connection that pipelines its requests in turn and measures their latencies.

    All answers have the same size. ``depth`` is how many requests to keep in flight, ``taken`` has
    the latency of each answer in seconds.
    """

    __slots__ = (
        "_answers",
        "_channel",
        "_next",
        "_part",
        "_requests",
        "_sent",
        "depth",
        "latencies_s",
    )

    def __init__(self, channel: Channel, requests: Sequence[RepeatedRequest]) -> None:
        self.depth = 0
        self.latencies_s = array("d")
        self._channel = channel
        self._requests = requests
        self._answers = [request.answer[NUMBERED.size :] for request in requests]
        self._next = 0
        self._part = b""
        self._sent: deque[float] = deque()
        channel.received = self.received

    @property
    def in_flight(self) -> int:
        """The number of requests without a response yet."""
        return len(self._sent)

    def send(self, count: int, at: float) -> None:
        """Send the next ``count`` requests, whose latency counts from ``at``."""
        first = self._next
        self._next += count
        requests, turn = self._requests, len(self._requests)
        self._sent.extend((at,) * count)
        self._channel.send(
            b"".join([bytes(requests[n % turn].numbered(n)) for n in range(first, first + count)])
        )

    def received(self, data: bytes) -> None:
        """Check and time the answers, and keep ``depth`` requests in flight."""
        now = time.perf_counter()
        if self._part:
            data = self._part + data
        answers, turn = self._answers, len(self._answers)
        size = NUMBERED.size + len(answers[0])
        whole = len(data) // size
        sent, taken = self._sent, self.latencies_s
        number = self._next - len(sent)
        for start in range(0, whole * size, size):
            if (
                data[start + NUMBERED.size : start + size] != answers[number % turn]
                or NUMBERED.unpack_from(data, start)[1] != number
            ):
                raise AnswerError(f"unexpected answer {data[start : start + size].hex()}")
            number += 1
            taken.append(now - sent.popleft())
        self._part = data[whole * size :]
        if whole and self.depth:
            self.send(self.depth - len(sent), now)


def all_latencies(pipelines: Sequence[Pipeline]) -> array[float]:
    """Return the latencies of all pipelines in one list."""
    taken = array("d")
    for pipeline in pipelines:
        taken.extend(pipeline.latencies_s)
    return taken


def closed_loop(reactor: Reactor, pipelines: Sequence[Pipeline], depth: int, seconds: float) -> int:
    """Keep ``depth`` requests of each pipeline in flight for ``seconds``; return the answers."""
    begun = time.perf_counter()
    before = sum(len(pipeline.latencies_s) for pipeline in pipelines)
    for pipeline in pipelines:
        pipeline.depth = depth
        pipeline.send(depth, time.perf_counter())
    end = begun + seconds
    while time.perf_counter() < end:
        reactor.turn(0.1)
    for pipeline in pipelines:
        pipeline.depth = 0
    _finish(reactor, pipelines)
    return sum(len(pipeline.latencies_s) for pipeline in pipelines) - before


def paced(
    reactor: Reactor, pipelines: Sequence[Pipeline], per_second: float, seconds: float
) -> int:
    """Send one request of each pipeline in turn, ``per_second`` in all; return how many.

    Latency counts from the time at which a request was due, so that a server which falls behind
    cannot hide that by delaying the generator.
    """
    begun = time.perf_counter()
    total = int(per_second * seconds)
    number = 0
    while number < total:
        now = time.perf_counter()
        while number < total and (due := begun + number / per_second) <= now:
            pipelines[number % len(pipelines)].send(1, due)
            number += 1
        reactor.turn(max(begun + number / per_second - time.perf_counter(), 0))
    _finish(reactor, pipelines)
    return total


def _finish(reactor: Reactor, pipelines: Sequence[Pipeline]) -> None:
    deadline = time.perf_counter() + ANSWER_SECONDS_MAX
    while any(pipeline.in_flight for pipeline in pipelines):
        if time.perf_counter() > deadline:
            raise AnswerError(f"no answer within {ANSWER_SECONDS_MAX} s")
        reactor.turn(0.1)
