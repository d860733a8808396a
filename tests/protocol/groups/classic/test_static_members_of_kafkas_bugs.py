"""Kafka's open bugs of static members, each as a conversation: what becomes of it here.

Those of consumer and streams groups are in files of the same name in their folders.
"""

from __future__ import annotations

import pytest

from protocol.groups.classic.states import ClassicGroupState
from protocol.groups.facts import RebalanceEnded, RebalanceTrigger
from protocol.wire.embedded import EmbeddedSubscription, encode_subscription
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.classic.classic_talk import ClassicTalk

RANGE = "range"


def subscribed(*topics: str, **more: object) -> list[tuple[str, bytes]]:
    return [(RANGE, encode_subscription(EmbeddedSubscription(topics=topics, **more)))]  # type: ignore[arg-type]


def stable(*names: str, topics: tuple[str, ...] = ("a",)) -> ClassicTalk:
    """A Stable group of static members of the protocol type consumer."""
    talk = ClassicTalk()
    for name in names:
        talk.join(name, instance=name.lower(), protocols=subscribed(*topics))
    talk.advance(6_000)
    for name in names:
        talk.sync(name, {each: f"{each}'s".encode() for each in names})
    return talk


def comes_back(talk: ClassicTalk, name: str, protocols: list[tuple[str, bytes]]) -> object:
    return talk.join(name, member_id="", protocols=protocols)


@pytest.mark.parametrize("name", ["A", "B"])
@pytest.mark.parametrize("after_failover", [False, True])
def test_a_static_member_that_comes_back_with_other_topics_begins_a_rebalance(
    name: str, after_failover: bool
) -> None:
    """KAFKA-12759: the chosen protocol is the same, so nobody was told of the new topics."""
    talk = stable("A", "B")
    if after_failover:
        talk.failover()
    assert comes_back(talk, name, subscribed("a", "b")) is None
    assert talk.state == ClassicGroupState.PREPARING_REBALANCE
    other = "B" if name == "A" else "A"
    assert talk.heartbeat(other) is ErrorCode.rebalance_in_progress
    talk.join(other, protocols=subscribed("a"))
    for each in ("A", "B"):
        talk.sync(each, {"A": b"1", "B": b"2"})
    assert talk.state == ClassicGroupState.STABLE
    [*_, last] = [fact for fact in talk.facts if isinstance(fact, RebalanceEnded)]
    assert last.trigger is RebalanceTrigger.STATIC_SUBSCRIPTION_CHANGED


@pytest.mark.parametrize(
    "protocols",
    [
        subscribed("a", user_data=b"remembered by its assignor"),
        subscribed("a", owned_partitions=(("a", 0),), generation_id=3),
        subscribed("a", rack_id="r"),
        [(RANGE, b"not a subscription")],
    ],
)
def test_a_static_member_that_comes_back_with_the_same_topics_finds_its_generation(
    protocols: list[tuple[str, bytes]],
) -> None:
    talk = stable("A", "B")
    answer = comes_back(talk, "B", protocols)
    assert answer is not None
    assert talk.state == ClassicGroupState.STABLE
    assert talk.sync("B").assignment == b"B's"


def test_the_later_of_two_joins_of_one_instance_has_its_place() -> None:
    """KAFKA-20985: a client abandons a join that is delivered all the same, and joins again.

    The coordinator cannot tell it from another process; the client avoids that by keeping its id.
    """
    talk = stable("A", "B")
    kept = talk.client("A").member_id
    talk.join("A", protocols=subscribed("a", "b"))  # it leads: the group rebalances
    first = talk.client("A").ticket
    talk.join("A", member_id="", protocols=subscribed("a"))
    assert talk.replies[first].message.error_code is ErrorCode.fenced_instance_id
    talk.join("B", protocols=subscribed("a"))
    assert talk.replies[talk.client("A").ticket].message.error_code is ErrorCode.none
    assert talk.join("A", member_id=kept).error_code is ErrorCode.fenced_instance_id


def test_a_join_with_the_members_own_id_is_no_other_process() -> None:
    """KAFKA-20985: a client that keeps its id is never fenced by its own second join."""
    talk = stable("A", "B")
    talk.join("A", protocols=subscribed("a", "b"))
    talk.join("A", protocols=subscribed("a", "b"))
    assert talk.join("B", protocols=subscribed("a")) is not None
    assert talk.replies[talk.client("A").ticket].message.error_code is ErrorCode.none


def test_a_classic_rebalance_waits_no_longer_than_a_session_for_a_silent_member() -> None:
    talk = stable("A", "B")
    talk.join("A", protocols=subscribed("a", "b"))
    began = talk.now
    while talk.state == ClassicGroupState.PREPARING_REBALANCE:
        talk.advance(500)
    assert talk.now - began <= 10_500
