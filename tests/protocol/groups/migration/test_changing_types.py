"""A group id goes from one type of group to another: nothing is lost, nothing is left behind."""

from __future__ import annotations

import pytest

from protocol.groups.timers import TimerKind
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.migration.mixed_talk import MixedTalk

POLICIES = ("disabled", "upgrade", "downgrade", "bidirectional")
DAYS_8_MS = 8 * 24 * 3600 * 1000


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
    talk.leave_group("A")
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
    talk.leave_group("A")
    talk.join("C")
    assert talk.is_consumer_group
    assert talk.offsets() == {("a", 0): (7, "")}
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
    assert talk.listed() == [(GROUP, "consumer", "Empty")]
    assert talk.delete(GROUP) == [ErrorCode.none]
    assert talk.offsets() == {}


def test_offsets_of_a_replaced_group_expire() -> None:
    talk = MixedTalk()
    talk.join("A")
    talk.beat("A")
    talk.commit("A")
    talk.leave("A")
    talk.join_group("C")
    talk.settle_classics("C")
    assert talk.offsets() == {("a", 0): (7, "")}
    talk.leave_group("C")
    talk.advance(DAYS_8_MS)
    assert talk.offsets() == {}
