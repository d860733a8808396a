"""Members of both protocols in one group, as the simulator and the load run them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from protocol.members.classic import ClassicMember, MemberConfig
from protocol.members.client import State
from protocol.members.consumer import ConsumerMember, ConsumerMemberConfig
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

TOPICS = {"a": 4, "b": 3}
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
        return {"group.initial.rebalance.delay.ms": "0"}

    def classic(self, name: str) -> None:
        """Add a member of the classic protocol."""
        config = MemberConfig(group_id="g", topics=("a", "b"), heartbeat_interval_ms=500)
        self.members[name] = ClassicMember(config, random.Random(name), TOPICS)

    def consumer(self, name: str) -> None:
        """Add a member of the consumer protocol."""
        config = ConsumerMemberConfig(group_id="g", topics=("a", "b"), heartbeat_interval_ms=500)
        names = {topic_id(topic): topic for topic in TOPICS}
        self.members[name] = ConsumerMember(config, random.Random(name), names)

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
        """Nobody shares a partition."""
        present = [member for member in self.members.values() if not member.is_done]
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


@pytest.mark.parametrize("order", ["classic first", "consumer first"])
def test_members_of_both_protocols_share_one_group_and_go_back_to_a_classic_one(order: str) -> None:
    fleet = Fleet(topics=TOPICS, is_prompt=True)
    first, second = (fleet.classic, fleet.consumer)
    if order == "consumer first":
        first, second = second, first
    first("one")
    first("two")
    fleet.run(5)
    assert fleet.shares() == [3, 4]
    second("three")
    second("four")
    fleet.run(10)
    assert fleet.is_consumer_group
    assert fleet.shares() == [1, 2, 2, 2]
    for member in fleet.members.values():
        assert member.generation == fleet.group.epoch
        member.commit(dict.fromkeys(member.partitions, 5))
    fleet.run(1)
    for member in fleet.members.values():
        if isinstance(member, ConsumerMember):
            member.leave()
    fleet.run(10)
    assert not fleet.is_consumer_group
    assert fleet.shares() == [3, 4]
    committed = fleet.context.offsets["g"]
    assert {topic: len(partitions) for topic, partitions in committed.items()} == TOPICS
