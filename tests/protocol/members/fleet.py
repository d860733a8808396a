"""A shard and members of any kind that talk to it, as the simulator and the load run them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from protocol.members.classic import MemberConfig
from protocol.members.client import State
from protocol.members.consumer import ConsumerMemberConfig
from protocol.members.kinds import TopicMetadata, kind_of, member_of
from protocol.wire.apis import API
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    NO_THROTTLE,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.protocol.groups.conversation import Client, Conversation, topic_id

if TYPE_CHECKING:
    from protocol.groups.effects import Result
    from protocol.members.kinds import AnyConfig

STEP_MS = 50
NAMED_TOPICS = 9
"""The last version of OffsetCommit that names topics; no other request here has a later one."""


class Fleet(Conversation[Client]):
    """One shard, its members and an assignor worker; time goes in steps."""

    def __post_init__(self) -> None:
        self.members: dict[str, Any] = {}
        self.outgoing: dict[int, tuple[Any, Any]] = {}
        super().__post_init__()

    def configs(self) -> dict[str, str]:
        return {
            "group.initial.rebalance.delay.ms": "0",
            "group.streams.initial.rebalance.delay.ms": "0",
            "group.streams.assignment.interval.ms": "0",
            "group.share.assignment.interval.ms": "0",
        }

    def add(self, name: str, config: AnyConfig) -> Any:
        """Add a member."""
        names = {topic_id(topic): topic for topic in self.topics}
        topics = TopicMetadata(partitions_of=self.topics, names=names)
        member = self.members[name] = member_of(config, random.Random(name), topics)
        return member

    def classic(self, name: str) -> None:
        """Add a member of the classic protocol."""
        self.add(name, MemberConfig(group_id="g", topics=("a", "b"), heartbeat_interval_ms=500))

    def consumer(self, name: str) -> None:
        """Add a member of the consumer protocol."""
        config = ConsumerMemberConfig(group_id="g", topics=("a", "b"), heartbeat_interval_ms=500)
        self.add(name, config)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(int(seconds * 1_000 / STEP_MS)):
            self.now += STEP_MS
            for name, member in self.members.items():
                for outgoing in member.poll(self.now):
                    self.send(name, member, outgoing)
            self.advance(0)
            self.check()

    def send(self, name: str, member: Any, outgoing: Any) -> None:
        """Carry a request to the shard."""
        message = outgoing.message
        if isinstance(message, FindCoordinatorRequest):
            member.receive(outgoing, FOUND, self.now)
            return
        self.outgoing[self.tickets + 1] = (member, outgoing)
        self.ask(message, min(API[message.__api_key__].max_version, NAMED_TOPICS), name)

    def take(self, result: Result) -> None:
        """Carry answers back."""
        super().take(result)
        for reply in result.replies:
            member, outgoing = self.outgoing[reply.ticket]
            member.receive(outgoing, reply.message, self.now)

    def check(self) -> None:
        """Nobody shares a partition, unless the kind of member allows it."""
        present = [
            member
            for member in self.members.values()
            if not member.is_done and kind_of(member.config).is_exclusive
        ]
        owned = [each for member in present for each in member.partitions]
        assert len(owned) == len(set(owned))

    def shares(self) -> list[int]:
        """How many partitions each member has that is still in."""
        return sorted(
            len(member.partitions)
            for member in self.members.values()
            if member.state is State.STABLE
        )


FOUND = FindCoordinatorResponse(
    throttle_time=NO_THROTTLE,
    coordinators=(
        Coordinator(
            key="g", node_id=1, host="h", port=9, error_code=ErrorCode.none, error_message=None
        ),
    ),
)
