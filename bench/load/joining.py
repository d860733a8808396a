"""Brings many members of one group to Stable at once, from pre-encoded frames.

Used to measure joins and mass restarts, and to make the groups that other benchmarks heartbeat or
commit in. Every member has a connection of its own while it joins.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.client.frames import (
    ERROR_AT,
    MARK,
    Template,
    compact,
    compact_bytes,
    frame_of,
    read_compact,
    split_frames,
    varint,
)
from protocol.members.assignor import Subscriber
from protocol.wire.embedded import encode_assignment, encode_subscription
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import decode_response
from protocol.wire.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.client.reactor import Channel, Reactor

JOIN_SECONDS_MAX: Final = 120
QUIET_SECONDS: Final = 0.05
"""With nothing heard for so long, the members that are done heartbeat, to learn of a rebalance."""
SESSION: Final = timedelta(minutes=25)
GENERATION_AT: Final = ERROR_AT + 2
JOIN_GROUP, JOIN_VERSION = 11, 9


class JoinError(Exception):
    """A member was answered an error that the benchmark does not expect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One group to bring up: its members' instance ids (None: dynamic) and its topic.

    The leader gives member *i*, in range order, partition *i* of ``topic``. ``session`` is the
    session and the rebalance timeout.
    """

    group_id: str
    topic: str
    instance_ids: Sequence[str | None]
    session: timedelta = SESSION


class Awaits(Enum):
    """An answer that a member waits for."""

    JOIN = "JoinGroup"
    SYNC = "SyncGroup"
    HEARTBEAT = "Heartbeat"


@dataclass(slots=True, eq=False)
class Joining:
    """One member on its way into the group."""

    instance_id: str | None
    channel: Channel
    member_id: str = ""
    generation: int = -1
    joins: int = 0
    awaits: deque[Awaits] = field(default_factory=deque)
    left_over: bytes = b""


class Joiner:
    """Joins every member of a plan, each over a connection of its own."""

    def __init__(self, plan: Plan, reactor: Reactor, channels: Sequence[Channel]) -> None:
        self.plan = plan
        self.members = [
            Joining(instance_id, channel)
            for instance_id, channel in zip(plan.instance_ids, channels, strict=True)
        ]
        self._reactor = reactor
        self._busy = 0
        self._heard = 0
        self._nameless = 0
        self._joins = {each: Template(_join(plan, each)) for each in plan.instance_ids}
        self._shares = [
            compact_bytes(encode_assignment([(plan.topic, index)]))
            for index in range(len(self.members))
        ]
        for member in self.members:
            member.channel.received = partial(self._received, member)

    def join_all(self) -> float:
        """Let all join at once; return the seconds until the last has its assignment."""
        return self._join(self.members)

    def join_first(self) -> None:
        """Let the first member make the group, alone."""
        self._join(self.members[:1])

    def join_others(self) -> float:
        """Let all others join the first member's group at once; return the seconds it took.

        The first member joins again once all others have a member id (KIP-394). The rebalance
        cannot end before it has, nor before everybody with a member id has joined, so one takes
        all in; nothing promises that when an empty group is joined without an initial delay.
        """
        self._nameless = len(self.members) - 1
        return self._join(self.members[1:])

    def _join(self, members: Sequence[Joining]) -> float:
        begun = time.perf_counter()
        for member in members:
            self._send_join(member)
        deadline = begun + JOIN_SECONDS_MAX
        quiet_s = QUIET_SECONDS
        while True:
            heard = self._heard
            self._reactor.turn(quiet_s)
            if self._busy == 0 and self._agree():
                return time.perf_counter() - begun
            if self._heard == heard:
                self._look_for_rebalance()
                quiet_s *= 2
            if time.perf_counter() > deadline:
                raise JoinError(f"{self._busy} members have no assignment after two minutes.")

    @property
    def joins(self) -> int:
        """JoinGroup requests sent in all."""
        return sum(member.joins for member in self.members)

    @property
    def generation(self) -> int:
        """The generation in which all members hold an assignment."""
        return self.members[0].generation

    def _agree(self) -> bool:
        return len({each.generation for each in self.members if each.generation >= 0}) == 1

    def _send(self, member: Joining, frame: bytes, awaits: Awaits) -> None:
        self._busy += 1
        member.awaits.append(awaits)
        member.channel.send(frame)

    def _send_join(self, member: Joining) -> None:
        member.joins += 1
        frame = self._joins[member.instance_id].fill(member.member_id)
        self._send(member, frame, Awaits.JOIN)

    def _look_for_rebalance(self) -> None:
        for member in self.members:
            if not member.awaits and member.generation >= 0:
                self._send(member, bytes(frame_of(heartbeat(self.plan, member))), Awaits.HEARTBEAT)

    def _received(self, member: Joining, data: bytes) -> None:
        frames, member.left_over = split_frames(member.left_over + data)
        for frame in frames:
            self._busy -= 1
            self._heard += 1
            awaited = member.awaits.popleft()
            error = int.from_bytes(frame[ERROR_AT:GENERATION_AT], signed=True)
            if error == ErrorCode.rebalance_in_progress:
                if not member.awaits:
                    self._send_join(member)
            elif awaited is Awaits.JOIN:
                self._joined(member, frame, error)
            elif error:
                raise JoinError(f"{awaited.value} was answered {ErrorCode(error).name}.")

    def _joined(self, member: Joining, frame: bytes, error: int) -> None:
        if error not in (ErrorCode.none, ErrorCode.member_id_required):
            raise JoinError(f"JoinGroup was answered {ErrorCode(error).name}.")
        member.generation = int.from_bytes(frame[GENERATION_AT : GENERATION_AT + 4], signed=True)
        _, at = read_compact(frame, GENERATION_AT + 4)  # protocol type
        _, at = read_compact(frame, at)  # protocol name
        leader, at = read_compact(frame, at)
        skips_assignment = frame[at]
        member.member_id, _ = read_compact(frame, at + 1)
        if error:
            self._send_join(member)
            self._nameless -= 1
            if self._nameless == 0:
                self._send_join(self.members[0])
            return
        sync = frame_of(_sync(self.plan, member))
        if leader == member.member_id and not skips_assignment:
            sync = self._with_assignments(sync, frame)
        self._send(member, bytes(sync), Awaits.SYNC)

    def _with_assignments(self, sync: bytearray, join_answer: bytes) -> bytearray:
        """Put everybody's assignment into a SyncGroup that has none.

        The empty list and the tags are its last two bytes.
        """
        _, answer = decode_response(JOIN_GROUP, JOIN_VERSION, join_answer[4:])
        ranked = sorted(
            (Subscriber(each.member_id, each.group_instance_id, ()) for each in answer.members),
            key=Subscriber.rank,
        )
        rows = [
            compact(subscriber.member_id) + share + b"\0"
            for subscriber, share in zip(ranked, self._shares, strict=False)
        ]
        frame = sync[:-2] + varint(len(rows) + 1) + b"".join(rows) + b"\0"
        frame[:4] = (len(frame) - 4).to_bytes(4)
        return frame


def heartbeat(plan: Plan, member: Joining) -> HeartbeatRequest:
    """Return the heartbeat of a member that has joined."""
    return HeartbeatRequest(
        group_id=plan.group_id,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
    )


def _join(plan: Plan, instance_id: str | None) -> JoinGroupRequest:
    subscription = encode_subscription((plan.topic,))
    return JoinGroupRequest(
        group_id=plan.group_id,
        session_timeout=plan.session,
        rebalance_timeout=plan.session,
        member_id=MARK,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription),),
        reason="benchmark",
    )


def _sync(plan: Plan, member: Joining) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=plan.group_id,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(),
    )
