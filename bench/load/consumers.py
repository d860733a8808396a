"""Large numbers of consumer group members (KIP-848): joining, converging, heartbeating.

The generator shares its cores with the server, so the member kernels write frames, and a member
keeps its assignment as the bytes that the coordinator sent.
"""

from __future__ import annotations

import random
import time
from array import array
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from bench.load.joining import CONNECTED_COORDINATOR
from protocol.client.frames import CLIENT_ID, by_frame, with_number
from protocol.members import consumer
from protocol.members.client import State
from protocol.members.consumer import ConsumerMemberConfig
from protocol.members.frames import ConsumerFrames, partitions_in, read_answer
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.client.reactor import Channel, Reactor
    from protocol.members.client import Outgoing

SETTLE_SECONDS_MAX: Final = 120
NUMBERS: Final = 0x7FFF_FFFF
STARTING: Final = frozenset({ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator})
"""The error of a Kafka that has just created its offsets topic."""
REJOIN: Final = frozenset({ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id})


class MemberError(Exception):
    """A member got an error that the benchmark does not expect."""


class LoadMember:
    """One member and its connection; ``count`` is how many partitions it owns.

    ``due_ms`` is when to ask it again what to send. ``told_s`` is when it sent changed topics,
    until that is answered.
    """

    __slots__ = ("channel", "count", "due_ms", "frames", "in_flight", "kernel", "told_s")

    def __init__(
        self, group_id: str, member_id: str, topics: tuple[str, ...], channel: Channel
    ) -> None:
        config = ConsumerMemberConfig(group_id=group_id, topics=topics, client_id=CLIENT_ID)
        self.frames = ConsumerFrames(CLIENT_ID)
        self.kernel = consumer.ConsumerMember(config, _RNG, {}, self.frames)
        self.kernel.member_id = member_id
        self.kernel.coordinator = CONNECTED_COORDINATOR
        self.kernel.keeps_history = False
        self.channel = channel
        self.count = 0
        self.due_ms = 0
        self.in_flight: Outgoing | None = None
        self.told_s = 0.0

    @property
    def epoch(self) -> int:
        """The member epoch."""
        return self.kernel.generation

    @property
    def owned(self) -> bytes:
        """The owned partitions as encoded on the wire."""
        owned: bytes = self.kernel.owned
        return owned

    @property
    def is_settled(self) -> bool:
        """Whether it has joined, has sent everything and received the answer."""
        kernel = self.kernel
        return self.in_flight is None and not kernel.has_news and kernel.state is State.STABLE

    def heartbeat_frame(self) -> bytearray:
        """Return the heartbeat without changes; its correlation id may be patched."""
        return bytearray(self.frames.steady(self.kernel).frame)


_RNG: Final = random.Random(0)


class ConsumerLoad:
    """Drives members: each has at most one heartbeat in flight, at the coordinator's interval.

    ``changes_taken_s`` is how long each heartbeat with a changed subscription waited for its
    answer.
    """

    def __init__(self, reactor: Reactor, clock: Callable[[], float] = time.perf_counter) -> None:
        self.members: list[LoadMember] = []
        self.answered = 0
        self.changes_taken_s = array("d")
        self._reactor = reactor
        self._clock = clock
        self._due: list[tuple[int, int, LoadMember]] = []
        self._numbers = count()

    def add(self, members: Sequence[LoadMember]) -> None:
        """Let members join now, all at once."""
        for member in members:
            member.channel.received = by_frame(partial(self._answered, member))
            self.members.append(member)
            self._step(member, self._now_ms())

    def change(self, member: LoadMember, topics: tuple[str, ...]) -> None:
        """Let a member change its subscription, at once or with its next heartbeat."""
        member.kernel.subscribe(topics)
        if member.in_flight is None:
            self._step(member, self._now_ms())

    def run(self, seconds: float, each_turn: Callable[[float], float] | None = None) -> None:
        """Run for ``seconds``; ``each_turn(now)`` may act and returns when to call it again."""
        end = self._clock() + seconds
        while (now := self._clock()) < end:
            wake = min(each_turn(now) if each_turn else end, end)
            self._turn(wake)

    def settle(self, is_settled: Callable[[], bool]) -> float:
        """Run until the groups have converged; return the seconds since the call."""
        begun = self._clock()
        while not is_settled():
            if self._clock() - begun > SETTLE_SECONDS_MAX:
                raise MemberError(f"the groups have not settled in {SETTLE_SECONDS_MAX} s")
            self._turn(self._clock() + 0.05)
        return self._clock() - begun

    def _now_ms(self) -> int:
        return round(self._clock() * 1000)

    def _turn(self, until: float) -> None:
        now, due = self._now_ms(), self._due
        while due and due[0][0] <= now:
            due_ms, _, member = heappop(due)
            if due_ms == member.due_ms and member.in_flight is None:
                self._step(member, now)
        wake = min(until, due[0][0] / 1000) if due else until
        self._reactor.turn(max(wake - self._clock(), 0))

    def _step(self, member: LoadMember, now: int) -> None:
        """Send what the member wants to send, or return when it is due again."""
        kernel = member.kernel
        tells_topics = kernel.tells_topics and kernel.generation > 0
        for outgoing in kernel.poll(now):
            if tells_topics:
                member.told_s = self._clock()
            member.in_flight = outgoing
            number = next(self._numbers) & NUMBERS
            member.channel.send(with_number(outgoing.message.frame, number))
            return
        member.due_ms = kernel.next_deadline() or now
        heappush(self._due, (member.due_ms, next(self._numbers), member))

    def _answered(self, member: LoadMember, frame: bytes) -> None:
        self.answered += 1
        if member.told_s:
            self.changes_taken_s.append(self._clock() - member.told_s)
            member.told_s = 0.0
        outgoing, member.in_flight = member.in_flight, None
        assert outgoing is not None
        kernel = member.kernel
        answer = read_answer(outgoing.message.__api_key__, frame)
        error = answer.error_code
        if error and error not in REJOIN and not (error in STARTING and kernel.generation == 0):
            raise MemberError(f"a heartbeat was answered {error.name}")
        owned, now = kernel.owned, self._now_ms()
        kernel.receive(outgoing, answer, now)
        if kernel.owned != owned:
            member.count = sum(1 for _ in partitions_in(kernel.owned))
        if kernel.coordinator is None:  # a starting Kafka returns this for a group of another type
            kernel.coordinator = CONNECTED_COORDINATOR
        self._step(member, now)


def is_settled(members: Sequence[LoadMember], partitions: int) -> bool:
    """Return whether one group's members are at one epoch and have confirmed all partitions.

    They all have the same subscription, so each has its fair share. Check with :func:`is_exclusive`
    that no partition is owned twice.
    """
    epoch = members[0].epoch
    counts = [member.count for member in members]
    return (
        epoch > 1
        and sum(counts) == partitions
        and max(counts) - min(counts) <= 1
        and all(member.epoch == epoch and member.is_settled for member in members)
    )


def is_exclusive(members: Sequence[LoadMember]) -> bool:
    """Return whether no partition is owned twice."""
    owned = [partition for member in members for partition in partitions_in(member.owned)]
    return len(owned) == len(set(owned))
