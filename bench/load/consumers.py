"""Members of consumer groups (KIP-848) in great number: joining, settling, heartbeating.

The generator shares its cores with the server, so a member is a few fields here and its requests
are frames made beforehand; what a member owns is kept as the bytes that the coordinator sent, which
are just the bytes that it wants back. A member takes over and revokes at once.
"""

from __future__ import annotations

import struct
import time
from array import array
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from bench.client.frames import LENGTH, frame_of, read_varint, split_frames, with_number
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.client.reactor import Channel, Reactor

SETTLE_SECONDS_MAX: Final = 120
UUID_BYTES: Final = 16
UNCHANGED: Final = timedelta(milliseconds=-1)
REBALANCE: Final = timedelta(minutes=5)
ERROR_AT: Final = 13
"""After length (4), correlation id (4), header tags (1) and throttle time (4)."""
NOTHING_OWNED: Final = b"\x01"
LOADING_SECONDS: Final = 0.1
"""After which a member asks again a coordinator that is still loading."""
_EPOCHS: Final = struct.Struct(">ii")


class MemberError(Exception):
    """A member was answered an error that the benchmark does not expect."""


@dataclass(slots=True, eq=False)
class ConsumerMember:
    """One member: ``owned`` is its partitions as they stand on the wire, ``count`` how many.

    ``due_s`` is when its next heartbeat is due; ``news`` are topics that it has yet to tell, and
    ``told_s`` is when it told the last ones, until that is answered.
    """

    group_id: str
    member_id: str
    topics: tuple[str, ...]
    channel: Channel
    epoch: int = 0
    owned: bytes = NOTHING_OWNED
    count: int = 0
    interval_s: float = 5.0
    due_s: float = 0.0
    is_busy: bool = False
    must_acknowledge: bool = False
    news: tuple[str, ...] | None = None
    told_s: float = 0.0
    left_over: bytes = b""
    steady: bytearray = field(default_factory=bytearray)
    steady_epoch: int = -1

    def join_frame(self) -> bytes:
        """Return the heartbeat that joins."""
        return bytes(frame_of(self._request(0, self.topics, ())))

    def heartbeat_frame(self) -> bytearray:
        """Return the heartbeat that says nothing new; its correlation id may be patched."""
        if self.steady_epoch != self.epoch:
            self.steady = frame_of(self._request(self.epoch, None, None))
            self.steady_epoch = self.epoch
        return self.steady

    def _request(
        self, epoch: int, topics: tuple[str, ...] | None, owned: tuple[()] | None
    ) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            rebalance_timeout=REBALANCE if epoch == 0 else UNCHANGED,
            subscribed_topic_names=topics,
            topic_partitions=owned,
        )

    def next_frame(self) -> bytes:
        """Return the next heartbeat: the join, news, an acknowledgement, or nothing new."""
        if self.epoch == 0:
            return self.join_frame()
        frame: bytes | bytearray
        if self.news is not None:
            frame = frame_of(self._request(self.epoch, self.news, None))
            self.topics, self.news = self.news, None
        else:
            frame = self.heartbeat_frame()
        if not self.must_acknowledge:
            return bytes(frame)
        self.must_acknowledge = False
        # The last two bytes are "no partitions told" and "no tagged fields".
        body = bytes(frame[LENGTH.size : -2]) + self.owned + b"\0"
        return LENGTH.pack(len(body)) + body


class ConsumerLoad:
    """Drives members; their heartbeats are as frequent as the coordinator says.

    ``changes_taken_s`` is how long each heartbeat with another subscription waited for its answer.
    """

    def __init__(self, reactor: Reactor, clock: Callable[[], float] = time.perf_counter) -> None:
        self.members: list[ConsumerMember] = []
        self.answered = 0
        self.changes_taken_s = array("d")
        self._reactor = reactor
        self._clock = clock
        self._due: list[tuple[float, int, ConsumerMember]] = []
        self._numbers = count()

    def add(self, members: Sequence[ConsumerMember]) -> None:
        """Let members join now, all at once."""
        for member in members:
            member.channel.received = partial(self._received, member)
            self.members.append(member)
            self._send(member)

    def change(self, member: ConsumerMember, topics: tuple[str, ...]) -> None:
        """Let a member subscribe to other topics, at once or with its next heartbeat."""
        member.news = topics
        if not member.is_busy:
            self._send(member)

    def run(self, seconds: float, each_turn: Callable[[float], float] | None = None) -> None:
        """Go on for ``seconds``; ``each_turn(now)`` may act and says when it wants to again."""
        end = self._clock() + seconds
        while (now := self._clock()) < end:
            wake = min(each_turn(now) if each_turn else end, end)
            self._turn(wake)

    def settle(self, is_settled: Callable[[], bool]) -> float:
        """Go on until the groups are as they should be; return the seconds since the call."""
        begun = self._clock()
        while not is_settled():
            if self._clock() - begun > SETTLE_SECONDS_MAX:
                raise MemberError(f"the groups have not settled in {SETTLE_SECONDS_MAX} s")
            self._turn(self._clock() + 0.05)
        return self._clock() - begun

    def _turn(self, until: float) -> None:
        now = self._clock()
        while self._due and self._due[0][0] <= now:
            due_s, _, member = heappop(self._due)
            if due_s == member.due_s and not member.is_busy:
                self._send(member)
        wake = min(until, self._due[0][0]) if self._due else until
        self._reactor.turn(max(wake - self._clock(), 0))

    def _send(self, member: ConsumerMember) -> None:
        member.is_busy = True
        if member.news is not None and member.epoch:
            member.told_s = self._clock()
        frame = member.next_frame()
        number = LENGTH.pack(next(self._numbers) & 0x7FFFFFFF)
        member.channel.send(with_number(frame, number))

    def _received(self, member: ConsumerMember, data: bytes) -> None:
        frames, member.left_over = split_frames(member.left_over + data)
        for frame in frames:
            self.answered += 1
            member.is_busy = False
            if member.told_s:
                self.changes_taken_s.append(self._clock() - member.told_s)
                member.told_s = 0.0
            self._answered(member, frame)
            if member.must_acknowledge or member.news is not None:
                self._send(member)
            else:
                member.due_s = self._clock() + member.interval_s
                heappush(self._due, (member.due_s, next(self._numbers), member))

    def _answered(self, member: ConsumerMember, frame: bytes) -> None:
        error = int.from_bytes(frame[ERROR_AT : ERROR_AT + 2], signed=True)
        if error:
            if error in REJOIN:
                member.epoch, member.owned, member.count = 0, NOTHING_OWNED, 0
                return
            if error in STARTING and member.epoch == 0:
                member.interval_s = LOADING_SECONDS
                return
            raise MemberError(f"a heartbeat was answered {ErrorCode(error).name}")
        at = ERROR_AT + 2
        for _ in range(2):  # error message, member id
            size, at = read_varint(frame, at)
            at += max(size - 1, 0)
        epoch, interval_ms = _EPOCHS.unpack_from(frame, at)
        member.epoch, member.interval_s = epoch, interval_ms / 1000
        at += _EPOCHS.size
        if frame[at] == 0xFF:
            return
        owned = frame[at + 1 : -2]  # after it: the tags of the assignment and of the answer
        if owned != member.owned:
            member.owned, member.must_acknowledge = owned, True
            member.count = sum(1 for _ in partitions_of(owned))


STARTING: Final = frozenset({ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator})
"""What a Kafka says that has just made its offsets topic."""

REJOIN: Final = frozenset({ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id})


def partitions_of(owned: bytes) -> Iterator[tuple[bytes, int]]:
    """Read partitions as they stand on the wire: topic id and index."""
    topics, at = read_varint(owned, 0)
    for _ in range(topics - 1):
        topic_id = owned[at : at + UUID_BYTES]
        size, at = read_varint(owned, at + UUID_BYTES)
        for index in struct.unpack_from(f">{size - 1}i", owned, at):
            yield topic_id, index
        at += 4 * (size - 1) + 1  # and no tagged fields


def is_settled(members: Sequence[ConsumerMember], partitions: int) -> bool:
    """Tell whether one group's members are at one epoch, with every partition owned and told.

    They all subscribe to the same, so each has its fair share. That no partition is owned twice has
    to be looked at once more by :func:`is_exclusive`.
    """
    epoch = members[0].epoch
    counts = [member.count for member in members]
    return (
        epoch > 1
        and sum(counts) == partitions
        and max(counts) - min(counts) <= 1
        and all(
            member.epoch == epoch and not (member.is_busy or member.must_acknowledge)
            for member in members
        )
    )


def is_exclusive(members: Sequence[ConsumerMember]) -> bool:
    """Tell whether no partition is owned twice."""
    owned = [partition for member in members for partition in partitions_of(member.owned)]
    return len(owned) == len(set(owned))
