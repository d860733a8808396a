"""A group id goes from one type of group to another: nothing is lost, nothing is left behind."""

from __future__ import annotations

import pytest

from protocol.groups.timers import TimerKind
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    DeleteGroupsRequest,
    LeaveGroupRequest,
    MemberIdentity,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.protocol.groups.migration.mixed_talk import GROUP, MixedTalk

POLICIES = ("disabled", "upgrade", "downgrade", "bidirectional")
DAYS_8_MS = 8 * 24 * 3600 * 1000


def committed(talk: MixedTalk) -> list[tuple[str, int, int]]:
    message = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=None),))
    return [
        (topic.name, row.partition_index, row.committed_offset)
        for topic in talk.ask(message, 9).groups[0].topics
        for row in topic.partitions
    ]


def leave(talk: MixedTalk, name: str) -> None:
    member = MemberIdentity(
        member_id=talk.classic(name).member_id, group_instance_id=None, reason=None
    )
    talk.ask(LeaveGroupRequest(group_id=GROUP, members=(member,)), 5, name)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_classic_group_whose_last_member_left_in_the_initial_delay_is_replaced(
    policy: str,
) -> None:
    talk = MixedTalk(
        {
            "group.consumer.migration.policy": policy,
            "group.initial.rebalance.delay.ms": "3000",
        }
    )
    assert talk.join_group("A") is None
    leave(talk, "A")
    talk.join("C")
    assert talk.is_consumer_group
    assert talk.context.timers.deadline(TimerKind.JOIN, GROUP, "") is None
    talk.advance(10_000)
    assert talk.is_consumer_group


def test_a_classic_group_with_nothing_but_an_id_given_out_is_replaced() -> None:
    """KIP-394: B got a member id and has not come back; A, the only member, leaves."""
    talk = MixedTalk()
    talk.classic_group("A")
    talk.commit("A")
    b = talk.classic("B")
    assert talk._join_group(b, 9).error_code is ErrorCode.member_id_required
    leave(talk, "A")
    talk.join("C")
    assert talk.is_consumer_group
    assert committed(talk) == [("a", 0, 7)]
    talk.failover()
    assert talk.is_consumer_group


@pytest.mark.parametrize(
    "refused",
    [
        {"session_ms": 1},
        {"session_ms": 100_000_000},
        {"member_id": "nobody"},
    ],
)
def test_a_refused_join_leaves_an_empty_consumer_group_and_its_offsets_alone(
    refused: dict[str, object],
) -> None:
    talk = MixedTalk()
    talk.join("A")
    talk.beat("A")
    talk.commit("A")
    talk.leave("A")
    written = len(talk.records)
    assert talk.join_group("C", **refused).error_code is not ErrorCode.none
    assert len(talk.records) == written
    assert talk.listed() == [("consumer", "Empty")]
    answer = talk.ask(DeleteGroupsRequest(groups_names=(GROUP,)), 2)
    assert [each.error_code for each in answer.results] == [ErrorCode.none]
    assert committed(talk) == []


def test_offsets_of_a_replaced_group_expire() -> None:
    talk = MixedTalk()
    talk.join("A")
    talk.beat("A")
    talk.commit("A")
    talk.leave("A")
    talk.join_group("C")
    talk.settle_classics("C")
    assert committed(talk) == [("a", 0, 7)]
    leave(talk, "C")
    talk.advance(DAYS_8_MS)
    assert committed(talk) == []
