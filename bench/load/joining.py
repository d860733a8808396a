"""Brings many members of one group to Stable at once, with member kernels that write frames.

Used to measure joins and mass restarts, and to create the groups in which other benchmarks
heartbeat or commit. Every member has its own connection while it joins.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from protocol.client.frames import CLIENT_ID, by_frame, error_in
from protocol.members.classic import ClassicMember, MemberConfig
from protocol.members.client import BrokerNode, State
from protocol.members.frames import ClassicFrames, GroupFrames, read_answer
from protocol.members.requests import CLASSIC_MESSAGES, JOIN_GROUP
from protocol.wire import compact
from protocol.wire.apis import API
from protocol.wire.embedded import encode_assignment
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.client.reactor import Channel, Reactor
    from protocol.members.client import Outgoing
    from protocol.wire.messages import HeartbeatRequest

JOIN_SECONDS_MAX: Final = 120
QUIET_SECONDS: Final = 0.05
"""After this long without an answer, the members that are done heartbeat, to notice a rebalance."""
SESSION: Final = timedelta(minutes=25)
CONNECTED_COORDINATOR: Final = BrokerNode(-1, "", 0)
"""The coordinator, to which every member is already connected."""
EXPECTED: Final = frozenset({ErrorCode.member_id_required, ErrorCode.rebalance_in_progress})


class JoinError(Exception):
    """A member got an error that the benchmark does not expect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """One group to bring up: its members' instance ids (None: dynamic) and its topic.

    The leader gives member *i*, in range order, partition *i* of ``topic``. ``session`` is the
    session timeout and the rebalance timeout.
    """

    group_id: str
    topic: str
    instance_ids: Sequence[str | None]
    session: timedelta = SESSION

    def config(self, instance_id: str | None) -> MemberConfig:
        """Return the settings of one member; it heartbeats only when told to."""
        session_ms = round(self.session.total_seconds() * 1000)
        return MemberConfig(
            group_id=self.group_id,
            topics=(self.topic,),
            client_id=CLIENT_ID,
            instance_id=instance_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms,
            request_timeout_ms=session_ms,
        )


class JoiningMember:
    """One joining member, and its connection."""

    __slots__ = ("channel", "in_flight", "joins", "kernel")

    def __init__(self, kernel: ClassicMember, channel: Channel) -> None:
        self.kernel = kernel
        self.channel = channel
        self.in_flight: Outgoing | None = None
        self.joins = 0

    @property
    def instance_id(self) -> str | None:
        """The static member's id."""
        return self.kernel.config.instance_id

    @property
    def member_id(self) -> str:
        """The member id that it received last."""
        return self.kernel.member_id

    @property
    def generation(self) -> int:
        """Its current generation; -1: none yet."""
        return self.kernel.generation


class Joiner:
    """Joins every member of a plan, each over its own connection."""

    def __init__(self, plan: GroupPlan, reactor: Reactor, channels: Sequence[Channel]) -> None:
        self.plan = plan
        self._reactor = reactor
        self._busy = 0
        self._heard = 0
        self._nameless = 0
        shares = [
            compact.blob(encode_assignment([(plan.topic, index)]))
            for index in range(len(plan.instance_ids))
        ]
        group = GroupFrames(plan.config(None), shares)
        rng = random.Random(0)
        self.members = [
            JoiningMember(_kernel(plan, group, instance_id, rng), channel)
            for instance_id, channel in zip(plan.instance_ids, channels, strict=True)
        ]
        for member in self.members:
            member.channel.received = by_frame(partial(self._answered, member))

    def join_all(self) -> float:
        """Let all join at once; return the seconds until the last has its assignment."""
        return self._join(self.members)

    def join_first(self) -> None:
        """Let the first member create the group, alone."""
        self._join(self.members[:1])

    def join_others(self) -> float:
        """Let all others join the first member's group at once; return the seconds it took.

        The first member joins again once all others have a member id (KIP-394). The rebalance
        cannot end before that, nor before every member with a member id has joined, so one
        rebalance includes all. Nothing guarantees that when an empty group is joined without an
        initial delay.
        """
        self._nameless = len(self.members) - 1
        return self._join(self.members[1:])

    def _join(self, members: Sequence[JoiningMember]) -> float:
        begun = time.perf_counter()
        for member in members:
            self._poll(member)
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
        """The total number of JoinGroup requests sent."""
        return sum(member.joins for member in self.members)

    @property
    def generation(self) -> int:
        """The generation in which all members hold an assignment."""
        return self.members[0].generation

    def _agree(self) -> bool:
        return len({each.generation for each in self.members if each.generation >= 0}) == 1

    def _poll(self, member: JoiningMember) -> None:
        for outgoing in member.kernel.poll(now_ms()):
            self._busy += 1
            member.in_flight = outgoing
            member.joins += outgoing.message.__api_key__ == JOIN_GROUP
            member.channel.send(outgoing.message.frame)

    def _look_for_rebalance(self) -> None:
        for member in self.members:
            if member.joins and member.in_flight is None:
                if member.kernel.state is State.STABLE:
                    member.kernel.heartbeat_now(now_ms())
                self._poll(member)

    def _answered(self, member: JoiningMember, frame: bytes) -> None:
        self._busy -= 1
        self._heard += 1
        outgoing, member.in_flight = member.in_flight, None
        assert outgoing is not None
        api_key = outgoing.message.__api_key__
        error = error_in(frame)
        if error and error not in EXPECTED:
            raise JoinError(f"{API[api_key].name} was answered {ErrorCode(error).name}.")
        member.kernel.receive(outgoing, read_answer(api_key, frame), now_ms())
        self._poll(member)
        if error == ErrorCode.member_id_required:
            self._nameless -= 1
            if self._nameless == 0:
                self.members[0].kernel.rejoin()
                self._poll(self.members[0])


def now_ms() -> int:
    """Return the members' time in milliseconds."""
    return int(time.perf_counter() * 1000)


def heartbeat(member: JoiningMember) -> HeartbeatRequest:
    """Return the heartbeat of a member that has joined."""
    request: HeartbeatRequest = CLASSIC_MESSAGES.heartbeat(member.kernel)
    return request


def _kernel(
    plan: GroupPlan, group: GroupFrames, instance_id: str | None, rng: random.Random
) -> ClassicMember:
    requests = ClassicFrames(group, instance_id)
    kernel = ClassicMember(plan.config(instance_id), rng, {}, requests)
    kernel.keeps_history = False
    kernel.coordinator = CONNECTED_COORDINATOR
    return kernel
