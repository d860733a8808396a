"""Rebalances of share and streams groups as traces, made of the facts of a conversation."""

from typing import Any

from actors.telemetry.log_messages import log_message
from actors.telemetry.rebalance_traces import Trace
from tests.actors.telemetry.test_consumer_traces import traces_of
from tests.protocol.groups.conversation import GROUP, Conversation
from tests.protocol.groups.share.share_talk import ShareTalk
from tests.protocol.groups.streams.streams_talk import StreamsTalk, tasks


def said(trace: Trace, *names: str) -> list[Any]:
    return [trace.attributes.get(f"rollcall.{name}") for name in names]


def triggers(talk: Conversation[Any]) -> list[Any]:
    return [said(trace, "rebalance.trigger")[0] for trace in traces_of(talk)]


def sentences(talk: Conversation[Any]) -> str:
    return "\n".join(log_message(fact) for fact in talk.facts)


def events(talk: Conversation[Any]) -> list[str]:
    return [event.kind for event in talk.shard.events(GROUP)]


class TestShareGroups:
    def test_members_that_join_subscribe_leave_and_expire_are_told(self) -> None:
        talk = ShareTalk()
        talk.join("A")
        talk.converge("A")
        talk.join("B")
        talk.converge("A", "B")
        talk.beat("B", subscribed_topic_names=("a", "b"))
        talk.converge("A", "B")
        talk.leave("B")
        talk.converge("A")
        talk.join("C")
        talk.converge("A", "C")
        talk.advance(30_000)
        talk.converge("A")
        talk.advance(20_000)
        talk.converge("A")
        found = triggers(talk)
        for trigger in ("joined", "subscribed", "left", "expired"):
            assert f"member-{trigger}" in found
        assert events(talk) == ["joined", "joined", "subscribed", "left", "joined", "expired"]
        last = traces_of(talk)[-1]
        assert said(last, "group.type", "assignor.name", "member.id") == ["share", "simple", "m-C"]
        assert said(last, "rebalance.outcome", "members") == ["stable", 1]
        assert [span.name for span in last.spans] == [
            "trigger",
            "wait",
            "assign",
            "write",
            "reconcile",
        ]

    def test_partitions_that_are_initialized_are_told_as_the_cause(self) -> None:
        talk = ShareTalk()
        talk.join("A")
        talk.converge("A")
        assert "share-state-initialized" in triggers(talk)
        assert "more of its partitions may be assigned; its epoch is" in sentences(talk)

    def test_a_topic_that_grows_is_told_as_the_cause(self) -> None:
        talk = ShareTalk()
        talk.join("A")
        talk.converge("A")
        talk.set_topics(a=8, b=2)
        talk.converge("A")
        talk.converge("A")
        assert "topics-changed" in triggers(talk)
        assert "its topics have changed; its epoch is" in sentences(talk)

    def test_the_wait_for_the_interval_is_a_span(self) -> None:
        talk = ShareTalk(interval_ms=1_000, in_place=False)
        talk.join("A")
        talk.converge("A")
        talk.advance(1_000)
        talk.converge("A")
        talk.join("B")
        began_ms = talk.now
        talk.advance(1_000)
        talk.converge("A", "B")
        _, wait, assign, *_ = traces_of(talk)[-1].spans
        assert wait.started_ms == began_ms
        assert wait.ended_ms > began_ms
        assert assign.attributes["rollcall.assignor.where"] == "worker"


def converge(talk: StreamsTalk, *names: str) -> None:
    """Let members own what they are assigned, a few times."""
    for _ in range(4):
        for name in names:
            owned = {each.member_id: each.assignment for each in talk.describe().members}
            talk.owning(name, tasks(owned[name].active_tasks), tasks(owned[name].standby_tasks))


def streams_group(*names: str) -> StreamsTalk:
    talk = StreamsTalk()
    for name in names:
        talk.join(name)
    converge(talk, *names)
    return talk


class TestStreamsGroups:
    def test_members_that_join_leave_and_expire_are_told(self) -> None:
        talk = streams_group("A", "B")
        talk.leave("B")
        converge(talk, "A")
        talk.join("C")
        converge(talk, "A", "C")
        talk.advance(30_000)
        converge(talk, "A")
        talk.advance(20_000)
        converge(talk, "A")
        found = triggers(talk)
        assert (found[0], found[-2:]) == ("member-joined", ["member-joined", "member-expired"])
        assert "member-left" in found
        assert events(talk) == ["joined", "joined", "left", "joined", "expired"]
        last = traces_of(talk)[-1]
        assert said(last, "group.type", "assignor.name") == ["streams", "sticky"]
        assert "tasks moved" in sentences(talk)

    def test_a_member_with_another_process_is_told_as_the_cause(self) -> None:
        talk = streams_group("A")
        talk.beat("A", process_id="another")
        converge(talk, "A")
        assert triggers(talk)[-1] == "member-updated"
        assert "has another process, endpoint, host or tags" in sentences(talk)

    def test_a_topology_whose_topics_go_and_come_is_told_as_the_cause(self) -> None:
        talk = streams_group("A")
        talk.change_topics(**{"in": 0})
        talk.advance(0)
        converge(talk, "A")
        talk.change_topics(**{"in": 3})
        talk.advance(0)
        converge(talk, "A")
        assert triggers(talk)[-2:] == ["topology-not-ready", "topology-ready"]
        assert "all topics of its topology exist; its epoch is" in sentences(talk)
        assert (
            "topics of its topology are missing or have other numbers of partitions; its epoch is"
            in sentences(talk)
        )

    def test_topics_that_grow_are_told_as_the_cause(self) -> None:
        talk = streams_group("A")
        talk.change_topics(**{"in": 4, "store-changelog": 4})
        talk.advance(0)
        converge(talk, "A")
        assert triggers(talk)[-1] == "topics-changed"

    def test_another_number_of_standbys_is_told_as_the_cause(self) -> None:
        talk = streams_group("A")
        talk.shard.group_configs = {GROUP: {"streams.num.standby.replicas": "1"}}
        talk.advance(0)
        converge(talk, "A")
        assert triggers(talk)[-1] == "configs-changed"
        assert "its assignment configs have changed; its epoch is" in sentences(talk)

    def test_the_initial_delay_is_the_wait(self) -> None:
        talk = StreamsTalk(delay_ms=3_000)
        talk.join("A")
        began_ms = talk.now
        talk.advance(3_000)
        converge(talk, "A")
        _, wait, *_ = traces_of(talk)[0].spans
        assert (wait.started_ms, wait.ended_ms) == (began_ms, began_ms + 3_000)
