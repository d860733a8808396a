"""Members of both protocols in one group, as the simulator and the load run them."""

from __future__ import annotations

import pytest

from protocol.members.consumer import ConsumerMember
from tests.protocol.members.fleet import Fleet

TOPICS = {"a": 4, "b": 3}


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
