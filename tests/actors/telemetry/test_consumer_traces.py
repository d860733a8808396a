"""A consumer group's rebalances as traces, made of the facts of a conversation with a shard."""

from typing import Any

from actors.telemetry.rebalance_traces import LateSpans, RebalanceTraces, Trace
from protocol.groups.effects import AssignmentFailed
from protocol.groups.facts import GroupConverted
from tests.actors.telemetry.causes import told
from tests.actors.telemetry.facts import NOW, member_event, reconciled, target_assigned
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.conversation import GROUP


def traces_of(talk: ConsumerTalk) -> list[Trace]:
    traces = RebalanceTraces()
    found = [trace for fact in talk.facts for trace in traces.tell(fact, None)]
    return [trace for trace in found if not isinstance(trace, LateSpans)]


def said(trace: Trace, *names: str) -> list[Any]:
    return [trace.attributes.get(f"rollcall.{name}") for name in names]


def triggers(talk: ConsumerTalk) -> list[Any]:
    return [said(trace, "rebalance.trigger")[0] for trace in traces_of(talk)]


def events_of(trace: Trace) -> list[str]:
    return [event.name for event in trace.events]


def test_a_join_is_traced_until_every_member_has_its_target() -> None:
    talk = ConsumerTalk()
    talk.join("A")
    talk.join("B")
    began_ms = talk.now
    talk.advance(300)
    talk.converge("A", "B")
    first, second = traces_of(talk)
    assert said(first, "epoch.before", "epoch.after", "members") == [1, 2, 1]
    assert said(second, "epoch.before", "epoch.after", "members") == [2, 3, 2]
    assert said(second, "rebalance.trigger", "member.id") == ["member-joined", "m-B"]
    assert said(second, "rebalance.outcome", "partitions.moved") == ["stable", 2]
    assert said(second, "group.type", "assignor.name") == ["consumer", "uniform"]
    assert (second.started_ms, second.ended_ms) == (began_ms, began_ms + 300)
    names = [stretch.name for stretch in second.spans]
    assert names == ["trigger", "wait", "assign", "write", "reconcile"]


def test_what_nobody_knows_is_left_out() -> None:
    unknown = target_assigned(partitions_moved=-1, in_place=None, queue_ms=None, assignor_ms=None)
    for fact, is_known in ((unknown, False), (target_assigned(partitions_moved=0), True)):
        spans = {each.name: each for each in told.spans([fact, reconciled()])}
        root = dict(spans["rebalance: member left"].attributes or {})
        assert root.get("rollcall.partitions.moved") == (0 if is_known else None)
        assert ("assign" in spans) is is_known


def test_the_stretches_tell_the_wait_for_the_interval_from_the_run_in_a_worker() -> None:
    talk = ConsumerTalk(in_place=False, interval_ms=1_000)
    talk.join("A")
    talk.converge("A")
    talk.advance(400)
    began_ms = talk.now
    talk.join("B")
    talk.advance(600)
    talk.now += 70
    talk.converge("A", "B")
    _, wait, assign, write, _ = traces_of(talk)[-1].spans
    assert (wait.started_ms, wait.ended_ms) == (began_ms, began_ms + 600)
    assert (assign.started_ms, assign.ended_ms) == (began_ms + 600, began_ms + 670)
    assert write.ended_ms == began_ms + 670
    assert assign.attributes["rollcall.assignor.where"] == "worker"


def test_who_left_or_was_not_heard_of_is_told() -> None:
    talk = ConsumerTalk()
    for name in "ABC":
        talk.join(name)
    talk.converge("A", "B", "C")
    talk.leave("C")
    talk.converge("A", "B")
    talk.advance(30_000)
    talk.beat("A")
    talk.advance(20_000)
    talk.converge("A")
    assert triggers(talk)[-2:] == ["member-left", "member-expired"]


def test_a_new_subscription_is_told_with_its_member() -> None:
    talk = ConsumerTalk()
    talk.join("A")
    talk.converge("A")
    talk.beat("A", subscribed_topic_names=("a", "b"))
    talk.converge("A")
    last = traces_of(talk)[-1]
    assert said(last, "rebalance.trigger", "member.id") == ["member-subscribed", "m-A"]


def test_topics_that_change_are_told_as_the_cause() -> None:
    talk = ConsumerTalk()
    talk.join("A")
    talk.converge("A")
    talk.set_topics(a=8, b=2)
    talk.converge("A")
    assert triggers(talk) == ["member-joined", "topics-changed"]


def test_a_regular_expression_that_matches_more_is_told_as_the_cause() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A", None, regex="a.*")
    talk.converge("A")
    talk.advance(60_000)
    talk.join("A", None, regex="a.*")
    talk.set_topics(a=4, ab=2, b=2)
    talk.converge("A")
    assert triggers(talk)[-1] == "regex-resolved"


def test_a_target_that_the_next_one_overtakes_is_told_so() -> None:
    talk = ConsumerTalk()
    talk.join("A")
    talk.join("B")  # A has yet to give up two partitions
    talk.join("C")
    talk.converge("A", "B", "C")
    outcomes = [said(trace, "rebalance.outcome")[0] for trace in traces_of(talk)]
    assert outcomes == ["stable", "restarted", "stable"]
    assert triggers(talk) == ["member-joined"] * 3


def test_a_group_that_loses_its_last_member_meanwhile_ends_empty() -> None:
    talk = ConsumerTalk()
    talk.join("A")
    talk.join("B")
    talk.leave("A")
    talk.leave("B")
    assert [said(trace, "rebalance.outcome")[0] for trace in traces_of(talk)][-1] == "empty"


def test_a_group_that_was_empty_for_long_begins_its_trace_with_who_comes() -> None:
    talk = ConsumerTalk()
    talk.join("A")
    talk.leave("A")
    talk.advance(3_600_000)
    talk.join("B")
    last = traces_of(talk)[-1]
    assert last.started_ms == talk.now
    assert said(last, "rebalance.trigger", "member.id") == ["member-joined", "m-B"]


def test_runs_that_failed_are_events_of_the_rebalance_that_they_held_up() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    talk.tasks.clear()
    failure = AssignmentFailed(
        group_id=GROUP, run=talk.context.last_run, reason="it died", retriable=True
    )
    talk.handle(failure)
    talk.converge("A")
    [trace] = traces_of(talk)
    assert events_of(trace) == ["joined", "run-failed"]
    assert trace.events[-1].attributes["rollcall.assignor.error"] == "it died"


def test_an_event_while_the_assignor_runs_is_in_the_next_trace_too() -> None:
    talk = ConsumerTalk(in_place=False)
    talk.join("A")
    talk.now += 10
    talk.join("B")
    talk.work()
    talk.converge("A", "B")
    first, second = traces_of(talk)
    assert events_of(first) == ["joined", "joined"]
    assert events_of(second) == ["joined"]
    assert said(second, "member.id") == ["m-B"]
    assert second.started_ms == first.started_ms + 10


def test_a_group_that_becomes_classic_ends_its_rebalance() -> None:
    traces = RebalanceTraces()
    converted = GroupConverted(
        group_id="orders", time_ms=NOW + 130, group_type="classic", epoch=6, members=2
    )
    facts = (member_event(), target_assigned(), converted)
    [trace] = [trace for fact in facts for trace in traces.tell(fact, None)]
    assert isinstance(trace, Trace)
    assert said(trace, "rebalance.outcome") == ["group-converted"]
    assert trace.ended_ms == NOW + 130
