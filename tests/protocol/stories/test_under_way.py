"""A rebalance under way: real groups say since when, why, and for whom they wait."""

from __future__ import annotations

import json

import pytest

from protocol.groups.awaiting import AwaitedStep
from protocol.stories.json_form import BadStoryError, plain, read_as
from protocol.stories.sentence import sentence
from protocol.stories.under_way import STEPS, UnderWay, under_way, under_way_sentence
from tests.actors.telemetry.causes import classic, consumer, share, streams
from tests.protocol.groups.classic.classic_talk import ClassicTalk
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.conversation import GROUP, Conversation
from tests.protocol.stories.test_sentences import told


def now_of(talk: Conversation) -> UnderWay | None:  # type: ignore[type-arg]
    awaiting = talk.shard.awaiting(GROUP)
    return None if awaiting is None else under_way(awaiting, talk.now)


def said(talk: Conversation) -> str:  # type: ignore[type-arg]
    now = now_of(talk)
    assert now is not None
    assert read_as(UnderWay, json.loads(json.dumps(plain(now)))) == now
    return under_way_sentence(now)


def test_a_group_at_rest_waits_for_nobody() -> None:
    for talk in (classic.group("A"), consumer.group("A"), share.group("A"), streams.group("A")):
        assert now_of(talk) is None
    assert ClassicTalk().shard.awaiting("nothing") is None


def test_a_group_that_fills_waits_for_more_members() -> None:
    talk = ClassicTalk()
    talk.enter("A")
    talk.advance(2_000)
    assert said(talk) == "under way for 2.0 s: member A (127.0.0.1) joined; waits for more members"


def test_a_classic_group_names_who_has_not_joined_yet() -> None:
    talk = classic.group("A", "B", "C", "D")
    talk.leave("D", reason="consumer poll timeout has expired.")
    talk.advance(4_000)
    assert said(talk) == (
        "under way for 4.0 s: member D (127.0.0.1) left, because its application did not poll in"
        ' time, "consumer poll timeout has expired."; waits for A, B and 1 other to join'
    )
    for name in "AB":
        classic.again(talk, name)
    assert said(talk).endswith("; waits for C to join")
    classic.again(talk, "C")
    talk.advance(1_000)
    assert said(talk).endswith("; waits for the assignment of A, for 1.0 s now")
    classic.finish(talk, "A", "B", "C")
    assert now_of(talk) is None


def test_a_consumer_group_names_who_has_not_given_up_partitions() -> None:
    talk = consumer.group("A", in_place=True)
    talk.join("B")
    talk.advance(3_000)
    give_up = "to give up what others get, or to ask for its share"
    assert said(talk) == f"under way for 3.0 s: waits for A {give_up}"
    talk.beat("A")  # it is told, and has not given them up
    assert said(talk) == f"under way for 3.0 s: waits for A {give_up}"
    talk.beat("A")
    assert said(talk) == "under way for 3.0 s: waits for B to take over what is free"
    talk.converge("A", "B")
    assert now_of(talk) is None


def test_what_a_target_waits_for() -> None:
    talk = ConsumerTalk(in_place=False, interval_ms=2_000)
    talk.join("A")
    talk.converge("A")
    talk.join("B")
    talk.advance(500)
    assert said(talk) == (
        "under way for 0.5 s: member B (127.0.0.1) joined; waits until the assignment interval is"
        " over"
    )
    talk.advance(2_000)
    assert said(talk) == (
        "under way for 2.5 s: member B (127.0.0.1) joined; waits for the assignor, for 0.5 s now"
    )


def test_a_new_leader_says_what_it_does_not_know() -> None:
    talk = consumer.group("A")
    talk.join("B")
    talk.advance(400)
    talk.failover()
    talk.settle()
    assert "its coordinator changed while it was rebalancing" in said(talk)


def test_of_a_large_group_some_are_named_and_all_counted() -> None:
    talk = ConsumerTalk(topics={"a": 400})
    for number in range(200):
        talk.join(f"m{number}")
    now = now_of(talk)
    assert now is not None
    assert len(now.awaited) == 5
    assert len(now.awaited) + now.more > 100


@pytest.mark.parametrize("value", [7, {"group_type": 1}, {"step": "none"}, {}])
def test_what_is_none_is_refused(value: object) -> None:
    with pytest.raises(BadStoryError):
        read_as(UnderWay, value)


def test_each_step_has_its_words() -> None:
    assert set(STEPS) == set(AwaitedStep)


# --- causes that are kept


def restore(talk: Conversation) -> None:  # type: ignore[type-arg]
    """Let the group's state be read again from the log, as after a handler that raised."""
    talk.shard.forget(GROUP)
    for record in talk.records:
        talk.shard.replay(record)
    talk.take(talk.shard.restored(GROUP, talk.now))
    talk.settle()


def test_a_cause_outlasts_that_the_group_is_read_again() -> None:
    talk = consumer.group("A", "B")
    talk.leave("B")
    restore(talk)
    now = now_of(talk)
    assert now is not None
    assert under_way_sentence(now).startswith("under way for 0 ms: member B (127.0.0.1) left")


def test_the_end_is_told_also_if_the_group_is_read_again_before() -> None:
    talk = consumer.group("A", in_place=True)
    talk.join("B")
    restore(talk)
    talk.advance(1_500)
    talk.converge("A", "B")
    story = sentence(told(talk.facts)[-1])
    assert "member B (127.0.0.1) joined; waited 1.5 s for B" in story
