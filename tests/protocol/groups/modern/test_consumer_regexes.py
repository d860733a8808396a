"""Subscriptions by regular expression: RE2, resolved elsewhere (KIP-848)."""

from __future__ import annotations

import pytest

from protocol.groups.effects import CancelAssignment, RegexesResolved, ResolveRegexes
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk

TOPICS = {"foo1": 2, "foo2": 1, "bar": 1}


def talk_of(**options: object) -> ConsumerTalk:
    return ConsumerTalk(topics=dict(TOPICS), **options)  # type: ignore[arg-type]


def regex_tasks(talk: ConsumerTalk) -> list[ResolveRegexes]:
    return [task for task in talk.tasks if isinstance(task, ResolveRegexes)]


def test_an_expression_matches_nothing_until_it_is_resolved() -> None:
    talk = talk_of()
    answer = talk.join("A", None, regex="foo.*")
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, 1)
    assert talk.owned("A") == [0]
    [task] = regex_tasks(talk)
    assert task.regexes == ("foo.*",)
    talk.converge("A")
    assert talk.client("A").owned == {("foo1", 0), ("foo1", 1), ("foo2", 0)}


@pytest.mark.parametrize("regex", ["[", "(", "a{2,1}", r"(a)\1", "(?=a)", "a**"])
def test_an_expression_that_is_not_one_of_re2s_is_refused_and_nothing_is_written(
    regex: str,
) -> None:
    talk = talk_of()
    answer = talk.join("A", None, regex=regex)
    assert answer.error_code is ErrorCode.invalid_regular_expression
    assert regex in answer.error_message
    assert talk.records == []
    talk.join("A", ("bar",))
    assert talk.beat("A", subscribed_topic_regex=regex).error_code is (
        ErrorCode.invalid_regular_expression
    )


def test_an_expression_that_others_have_is_known_at_once() -> None:
    talk = talk_of()
    talk.join("A", None, regex="foo.*")
    talk.converge("A")
    talk.join("B", None, regex="foo.*")
    assert not regex_tasks(talk)
    talk.converge("A", "B")
    assert sum(talk.owned("A", "B")) == 3


def test_the_last_members_expression_is_forgotten() -> None:
    talk = talk_of()
    talk.join("A", ("bar",), regex="foo.*")
    talk.converge("A")
    assert talk.owned("A") == [4]
    talk.beat("A", subscribed_topic_regex="")
    talk.converge("A")
    assert talk.group.regexes == {}
    assert talk.client("A").owned == {("bar", 0)}


def test_new_topics_are_looked_through_after_ten_seconds_without_any_heartbeat() -> None:
    talk = talk_of()
    talk.join("A", None, regex="foo.*")
    talk.converge("A")
    talk.set_topics(**TOPICS, foo3=2)
    talk.advance(9_999)
    assert not regex_tasks(talk)
    talk.advance(1)
    assert len(regex_tasks(talk)) == 1
    talk.converge("A")
    assert talk.owned("A") == [5]


def test_expressions_are_resolved_anew_after_the_refresh_interval() -> None:
    talk = talk_of(overrides={"group.consumer.regex.refresh.interval.ms": "30000"})
    talk.join("A", None, regex="foo.*")
    talk.converge("A")
    talk.advance(10_000)
    talk.work()  # after an election nobody knows whether there were new topics: one more look
    epoch = talk.group.epoch
    talk.advance(20_000)
    talk.beat("A")
    talk.work()
    talk.advance(20_000)
    assert len(regex_tasks(talk)) == 1
    talk.work()
    assert talk.group.epoch == epoch  # they match what they did: nobody rebalances


def test_expressions_resolved_by_a_clock_that_was_ahead_are_resolved_again() -> None:
    """However far it was: nobody waits until that time has come."""
    talk = talk_of()
    talk.context.wall.offset_ms = 86_400_000
    talk.join("A", None, regex="foo.*")
    talk.converge("A")
    talk.failover()
    talk.context.wall.offset_ms = 0
    talk.set_topics(**TOPICS, foo3=2)
    talk.advance(10_000)
    assert len(regex_tasks(talk)) == 1
    talk.converge("A")
    assert talk.owned("A") == [5]
    talk.advance(60_000)
    assert not regex_tasks(talk)


def test_a_deleted_topic_is_taken_back_before_the_expression_is_resolved_again() -> None:
    talk = talk_of()
    talk.join("A", None, regex="foo.*")
    talk.converge("A")
    talk.set_topics(foo1=2, bar=1)
    talk.converge("A")
    assert talk.client("A").owned == {("foo1", 0), ("foo1", 1)}


def test_with_nobody_to_ask_expressions_are_resolved_in_place() -> None:
    talk = talk_of()
    talk.join("A", None, regex="b.r")
    [task] = regex_tasks(talk)
    talk.tasks.clear()
    talk.handle(RegexesResolved(group_id="g", version=task.version, topics=None))
    talk.converge("A")
    assert talk.owned("A") == [1]


def test_an_answer_that_nobody_waits_for_is_ignored() -> None:
    talk = talk_of()
    talk.join("A", ("bar",))
    records = len(talk.records)
    talk.handle(RegexesResolved(group_id="g", version=0, topics={"x": ("bar",)}))
    talk.handle(RegexesResolved(group_id="nobody", version=0, topics={"x": ("bar",)}))
    assert len(talk.records) == records


def test_a_new_leader_resolves_what_was_left_open() -> None:
    talk = talk_of()
    talk.join("A", None, regex="foo.*")
    talk.failover(from_compacted=True)
    talk.settle()
    talk.tasks = type(talk.tasks)(t for t in talk.tasks if not isinstance(t, CancelAssignment))
    assert len(regex_tasks(talk)) == 1
    talk.converge("A")
    assert talk.owned("A") == [3]


def test_an_answer_about_earlier_topics_is_not_taken_for_the_one_that_is_awaited() -> None:
    talk = talk_of()
    talk.join("A", None, regex="foo.*")
    [task] = regex_tasks(talk)
    early = talk.executor.run(task)
    talk.converge("A")
    talk.set_topics(**TOPICS, foo3=1)
    talk.advance(10_000)
    [again] = regex_tasks(talk)
    talk.handle(early)
    talk.handle(talk.executor.run(again))
    talk.converge("A")
    assert ("foo3", 0) in talk.client("A").owned
