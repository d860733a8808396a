"""Large numbers of members of consumer, share and streams groups: joining, heartbeating, changing.

The generator shares its cores with the server, so the member kernels write frames, and a member
keeps its assignment as the bytes that the coordinator sent. What differs by type of group is in
:mod:`bench.load.kinds`.
"""

from __future__ import annotations

import time
from array import array
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from bench.load.joining import CONNECTED_COORDINATOR
from bench.load.kinds import LOAD_KINDS, LoadKind
from protocol.client.frames import by_frame, with_number
from protocol.members.client import State
from protocol.members.frames import read_answer
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
    """One member and its connection; ``count`` is how many partitions or active tasks it owns.

    ``due_ms`` is when to ask it again what to send. ``told_s`` is when it sent changed topics,
    or began to be replaced, until that is answered.
    """

    __slots__ = (
        "_group_id", "_topics", "channel", "count", "due_ms", "in_flight", "is_leaving",
        "kernel", "kind", "told_s",
    )  # fmt: skip

    def __init__(
        self,
        group_id: str,
        member_id: str,
        topics: tuple[str, ...],
        channel: Channel,
        kind: LoadKind = LOAD_KINDS["consumer"],
    ) -> None:
        self._group_id = group_id
        self._topics = topics
        self.kind = kind
        self.channel = channel
        self.in_flight: Outgoing | None = None
        self.told_s = 0.0
        self.become(member_id)

    def become(self, member_id: str) -> None:
        """Be a member that has not joined yet."""
        self.kernel: Any = self.kind.make(self._group_id, self._topics)
        self.kernel.member_id = member_id
        self.kernel.coordinator = CONNECTED_COORDINATOR
        self.kernel.keeps_history = False
        self.count = 0
        self.due_ms = 0
        self.is_leaving = False

    @property
    def epoch(self) -> int:
        """The member epoch."""
        epoch: int = self.kernel.generation
        return epoch

    @property
    def owned(self) -> bytes:
        """What it owns as encoded on the wire."""
        owned: bytes = self.kernel.owned
        return owned

    @property
    def is_settled(self) -> bool:
        """Whether it has joined, has sent everything and received the answer."""
        kernel = self.kernel
        return self.in_flight is None and not kernel.has_news and kernel.state is State.STABLE

    def heartbeat_frame(self) -> bytearray:
        """Return the heartbeat without changes; its correlation id may be patched."""
        return bytearray(self.kind.versioned(self.kernel.requests.steady(self.kernel).frame))


class MemberLoad:
    """Drives members: each has at most one heartbeat in flight, at the coordinator's interval.

    ``changes_taken_s`` is how long each heartbeat with a changed subscription waited for its
    answer; for members that are replaced, how long it took to leave and to join.
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
        """Let a member change its subscription, at once or with its next heartbeat.

        A member of a kind that cannot leaves, and another one joins in its place.
        """
        if member.kind.changes_topics:
            member.kernel.subscribe(topics)
        elif member.kernel.generation > 0:
            member.is_leaving = True
            member.kernel.leave(for_good=True)
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
        is_change = member.is_leaving or (kernel.tells_topics and kernel.generation > 0)
        for outgoing in kernel.poll(now):
            if is_change:
                member.told_s = self._clock()
            member.in_flight = outgoing
            number = next(self._numbers) & NUMBERS
            frame = member.kind.versioned(outgoing.message.frame)
            member.channel.send(with_number(frame, number))
            return
        if kernel.is_done:
            member.become(f"{kernel.member_id.partition('+')[0]}+{next(self._numbers)}")
            self._step(member, now)
            return
        member.due_ms = kernel.next_deadline() or now
        heappush(self._due, (member.due_ms, next(self._numbers), member))

    def _answered(self, member: LoadMember, frame: bytes) -> None:
        self.answered += 1
        if member.told_s and not member.is_leaving:
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
            member.count = sum(1 for _ in member.kind.owned(kernel.owned))
        if kernel.coordinator is None:  # a starting Kafka returns this for a group of another type
            kernel.coordinator = CONNECTED_COORDINATOR
        self._step(member, now)


def is_settled(members: Sequence[LoadMember], partitions: int) -> bool:
    """Return whether one group's members are at one epoch and have confirmed all partitions.

    If their kind is even, all own equally many. Check with :func:`is_exclusive` that no partition
    is owned twice.
    """
    epoch = members[0].epoch
    counts = [member.count for member in members]
    return (
        epoch > 1
        and sum(counts) == partitions
        and (not members[0].kind.is_even or max(counts) - min(counts) <= 1)
        and all(member.epoch == epoch and member.is_settled for member in members)
    )


def is_exclusive(members: Sequence[LoadMember]) -> bool:
    """Return whether no partition is owned twice; always true if several members may own one."""
    owned = [each for member in members for each in member.kind.owned(member.owned)]
    return not members[0].kind.is_exclusive or len(owned) == len(set(owned))
