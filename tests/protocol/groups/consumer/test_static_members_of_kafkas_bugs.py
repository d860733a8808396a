"""Kafka's open bugs of static members, each as a conversation: what becomes of it here."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.wire.errors import ErrorCode
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk

# --- KAFKA-12759: a static member comes back with another subscription


@pytest.mark.parametrize(
    ("said", "is_new"),
    [
        ({"topics": ("a", "b")}, True),
        ({"topics": ("b",)}, True),
        ({"topics": None, "regex": "a|b"}, True),
        ({"topics": ("a",), "server_assignor": "range"}, False),
        ({"topics": ("a",), "rack_id": "r"}, False),
        ({"topics": ("a",)}, False),
    ],
)
@pytest.mark.parametrize("after_failover", [False, True])
@pytest.mark.parametrize("member_id", ["m-A", "m-A2"])
def test_a_static_member_that_comes_back_with_other_topics_begins_an_epoch(
    said: dict[str, Any], is_new: bool, after_failover: bool, member_id: str
) -> None:
    talk = ConsumerTalk()
    talk.join("A=i")
    talk.join("B")
    talk.converge("A", "B")
    if after_failover:
        talk.failover()
    epoch = talk.group.epoch
    talk.leave("A", -2)
    assert talk.join("A", member_id=member_id, **said).error_code is ErrorCode.none
    talk.converge("A", "B")
    assert (talk.group.epoch > epoch) is is_new
    topics = {topic for topic, _ in talk.client("A").owned}
    assert ("b" in topics) is is_new
    assert sum(talk.owned("A", "B")) == (6 if is_new else 4)


# --- KAFKA-20985 and pull request 23542: a join whose answer is lost


def test_the_second_join_of_a_new_static_member_is_no_other_process() -> None:
    talk = ConsumerTalk()
    talk.join("A=i")
    assert talk.join("A").error_code is ErrorCode.none
    assert list(talk.group.members) == ["m-A"]
    assert talk.join("A", member_id="m-A2").error_code is ErrorCode.unreleased_instance_id


def test_the_old_process_is_fenced_once_the_next_one_has_its_place() -> None:
    talk = ConsumerTalk()
    talk.join("A=i")
    talk.converge("A")
    epoch = talk.client("A").epoch
    talk.leave("A", -2)
    talk.join("A", member_id="m-A2")
    for asked in (epoch, -1, -2):
        answer = talk.heartbeat("A", member_id="m-A", member_epoch=asked)
        assert answer.error_code is ErrorCode.fenced_instance_id
    assert talk.join("A", member_id="m-A").error_code is ErrorCode.unreleased_instance_id
    assert talk.group.static_members == {"i": "m-A2"}


@pytest.mark.parametrize("how", ["the answer was lost", "it was fenced by its epoch", "it left"])
def test_a_static_member_that_joins_with_its_own_id_is_not_refused(how: str) -> None:
    """Kafka's pull request 23542: UNRELEASED_INSTANCE_ID, fatal to the Java client."""
    talk = ConsumerTalk()
    talk.join("A=i")
    talk.join("B")
    talk.converge("A", "B")
    had = talk.client("A").owned
    if how == "it was fenced by its epoch":
        fenced = talk.heartbeat("A", member_epoch=talk.client("A").epoch + 5)
        assert fenced.error_code is ErrorCode.fenced_member_epoch
    elif how == "it left":
        member_id = talk.client("A").member_id
        talk.leave("A", -2)
        talk.client("A").member_id = member_id
    assert talk.join("A").error_code is ErrorCode.none
    talk.converge("A", "B")
    assert talk.client("A").owned == had
    assert talk.group.static_members == {"i": "m-A"}


@pytest.mark.parametrize("before", [None, "i"])
def test_a_member_that_joins_with_another_instance_id_has_that_one_and_no_other(
    before: str | None,
) -> None:
    """Kafka's pull request 23542 would refuse it; Kafka 4.3.1 takes it, and so does this."""
    talk = ConsumerTalk()
    talk.join("A" if before is None else f"A={before}")
    talk.converge("A")
    assert talk.join("A", instance_id="j").error_code is ErrorCode.none
    assert talk.group.static_members == {"j": "m-A"}
    talk.failover()
    assert talk.group.static_members == {"j": "m-A"}


def test_members_wait_no_longer_than_a_session_for_a_member_that_stayed_in_silence() -> None:
    """A client that is closed with REMAIN_IN_GROUP (KIP-1092) says nothing; others do not stall."""
    talk = ConsumerTalk()
    talk.join("A", topics=("a", "b"))
    talk.converge("A")
    last = talk.now
    talk.join("B", topics=("a", "b"))
    while talk.owned("B") != [6]:
        talk.advance(1_000)
        talk.beat("B")
        talk.work()
        assert talk.now - last <= 47_000
