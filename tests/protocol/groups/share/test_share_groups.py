"""Share groups (KIP-932): share state that fails or does not come, deletion, other requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from protocol.groups.effects import ShareStateAnswered
from protocol.groups.modern.assignment_records import CurrentAssignment
from protocol.groups.share import initialization
from protocol.groups.share.records import read_current, write_current
from protocol.groups.share.state_topics import StateTopic, StateTopics
from protocol.groups.topic_numbers import TOPIC_SHIFT, TopicNumbers
from protocol.groups.topics import Topic, Topics
from protocol.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupStatePartitionMetadataKey,
    TargetTopicPartitions,
    decode,
    encode_value,
)
from protocol.wire.apis import error_response
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    ShareGroupHeartbeatRequest,
)
from tests.failover.apis import asks
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.conversation import GROUP, topic_id
from tests.protocol.groups.share.share_talk import ShareTalk

RETRY_MS = 30_000
ALL = [("a", index) for index in range(4)]


def told(talk: ShareTalk) -> list[list[tuple[str, int]]]:
    """What each call waits for, by topic and partition."""
    return [
        [
            (topic.topic_id.bytes.rstrip(b".").decode(), each.partition)
            for topic in call.request.topics
            for each in topic.partitions
        ]
        for call in talk.calls
    ]


def test_partitions_without_share_state_are_not_assigned_and_asked_for_again() -> None:
    talk = ShareTalk(holds_calls=True)
    talk.join("A")
    talk.beat("A")
    assert (told(talk), talk.owned("A")) == ([ALL], [0])
    for _ in range(6):  # no answer: asked for again when the retry interval is over, not before
        talk.advance(RETRY_MS // 6)
        talk.beat("A")
    assert told(talk) == [ALL] * 2
    talk.answer_calls(1)
    talk.settle()
    talk.beat("A")
    assert talk.owned("A") == [4]
    talk.answer_calls(1)  # the second answer changes nothing
    epoch = talk.group.epoch
    talk.advance(RETRY_MS // 6)
    assert talk.group.epoch == epoch


def test_a_new_leader_asks_again_at_the_first_heartbeat() -> None:
    talk = ShareTalk(holds_calls=True)
    talk.join("A")
    assert told(talk) == [ALL]
    talk.failover()
    assert told(talk) == []
    talk.settle()
    talk.beat("A")
    assert told(talk) == [ALL]
    talk.answer_calls()
    talk.settle()
    talk.beat("A")
    assert talk.owned("A") == [4]
    talk.failover(from_compacted=True)
    talk.settle()
    talk.beat("A")
    assert (told(talk), talk.owned("A")) == ([], [4])


def test_partitions_that_failed_are_asked_for_again_after_a_heartbeat_interval() -> None:
    """As in Kafka, they are no longer initializing, and the next heartbeats find them missing."""
    talk = ShareTalk(holds_calls=True)
    talk.join("A")
    (call,) = talk.calls
    talk.calls.clear()
    refused: Any = error_response(83, call.request, ErrorCode.coordinator_not_available)
    done = talk.ask_share_state(call.request)
    rows = (*refused.results[0].partitions[:1], *done.results[0].partitions[1:])
    mixed = replace(done, results=(replace(done.results[0], partitions=rows),))
    answer = ShareStateAnswered(group_id=GROUP, call=call.call, response=mixed)
    talk.handle(answer)
    talk.handle(answer)  # it counts once
    state = talk.group.state_topics
    assert state.initialized[topic_id("a")].partitions == frozenset((1, 2, 3))
    assert state.initializing == {}
    talk.advance(4_999)
    assert told(talk) == []
    talk.advance(1)
    assert told(talk) == [[("a", 0)]]
    talk.answer_calls()
    talk.settle()
    talk.beat("A")
    talk.beat("A")
    assert talk.owned("A") == [4]


def test_an_answer_about_a_deleted_group_or_topic_is_ignored() -> None:
    talk = ShareTalk(holds_calls=True)
    talk.join("A")
    late = talk.calls.popleft()
    talk.leave("A")
    talk.ask(DeleteGroupsRequest(groups_names=(GROUP,)), 2)
    assert talk.group.state_topics.deleting == {topic_id("a"): "a"}
    assert told(talk) == [ALL]
    talk.answer_calls()
    (result,) = talk.answer(talk.tickets).results
    assert result.error_code is ErrorCode.none
    talk.calls.append(late)
    talk.answer_calls()
    assert GROUP not in talk.context.groups
    assert not talk.shard.has_groups


def test_a_group_whose_share_state_cannot_be_deleted_stays() -> None:
    """Kafka's order: first the share state, then the group; its topics are *deleting* between."""
    talk = ShareTalk()
    talk.join("A")
    talk.leave("A")
    talk.holds_calls = True
    talk.ask(DeleteGroupsRequest(groups_names=("x", GROUP)), 2)
    (call,) = talk.calls
    talk.calls.clear()
    why = ErrorCode.not_coordinator
    talk.handle(
        ShareStateAnswered(
            group_id=GROUP, call=call.call, response=error_response(86, call.request, why)
        )
    )
    results = talk.answer(talk.tickets).results
    assert [each.error_code for each in results] == [ErrorCode.group_id_not_found, why]
    assert talk.group.state_topics.deleting == {topic_id("a"): "a"}
    talk.failover()
    talk.holds_calls = False
    assert talk.delete(GROUP) == [ErrorCode.none]
    assert not talk.shard.has_groups
    assert not talk.share_state.has_groups


def test_a_member_that_joins_while_the_group_is_deleted_keeps_it() -> None:
    talk = ShareTalk()
    talk.join("A")
    talk.leave("A")
    talk.holds_calls = True
    talk.ask(DeleteGroupsRequest(groups_names=(GROUP,)), 2)
    talk.join("B")
    talk.answer_calls()
    (result,) = talk.replies[talk.tickets - 1].message.results  # type: ignore[attr-defined]
    assert result.error_code is ErrorCode.non_empty_group
    talk.settle()
    talk.beat("B")
    assert talk.owned("B") == [4]


def test_share_state_of_a_deleted_topic_is_dropped_and_a_new_one_begins() -> None:
    talk = ShareTalk()
    talk.join("A", ("a", "b"))
    talk.beat("A")
    assert talk.group.state_topics.initialized.keys() == {topic_id("a"), topic_id("b")}
    again = UUID(int=7)
    kept = Topic(topic_id("b"), "b", 2)
    deleted = {"a": frozenset({topic_id("a")})}
    talk.shard.topics = Topics([Topic(again, "a", 1), kept], deleted=deleted)
    talk.settle()
    assert talk.group.state_topics.initialized.keys() == {topic_id("b")}
    talk.beat("A")
    assert talk.group.state_topics.initialized.keys() == {topic_id("b"), again}
    talk.shard.topics = Topics([kept])  # only not known here: no proof that it was deleted
    talk.settle()
    assert talk.group.state_topics.initialized.keys() == {topic_id("b"), again}


def test_partitions_whose_share_state_was_deleted_during_a_run_are_not_given() -> None:
    talk = ShareTalk(in_place=False)
    talk.join("A")
    talk.work()
    group = talk.group
    without = group.state_topics.without([topic_id("a")])
    initialization.write(talk.context, group.group_id, without)
    talk.beat("A")
    assert talk.owned("A") == [0]


def test_a_group_is_deleted_with_all_its_records() -> None:
    talk = ShareTalk()
    talk.join("A")
    talk.beat("A")
    assert talk.delete(GROUP) == [ErrorCode.non_empty_group]
    talk.leave("A")
    assert talk.delete(GROUP) == [ErrorCode.none]
    talk.failover(from_compacted=True)
    assert not talk.shard.has_groups


def test_a_silent_member_expires() -> None:
    talk = ShareTalk()
    talk.join("A")
    talk.advance(44_999)
    assert talk.group.members
    talk.advance(1)
    assert talk.group.state == "Empty"
    talk.beat("A", member_epoch=1)
    assert talk.client("A").error is ErrorCode.unknown_member_id


def test_requests_of_other_types_find_no_share_group() -> None:
    talk = ShareTalk()
    talk.join("A")
    talk.beat("A")
    member_id, epoch = talk.client("A").member_id, talk.client("A").epoch
    for asked in (0, epoch, -1):
        answer = talk.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=member_id,
                member_epoch=asked,
                subscribed_topic_names=("a",) if asked == 0 else None,
                topic_partitions=() if asked == 0 else None,
                **({"rebalance_timeout": asks.join("g").rebalance_timeout} if asked == 0 else {}),
            ),
            1,
        )
        assert answer.error_code is ErrorCode.group_id_not_found
    assert talk.ask(asks.join(GROUP), 4).error_code is ErrorCode.inconsistent_group_protocol
    committed = talk.ask(asks.commit(GROUP, 6, topic="a"), 8)
    assert committed.topics[0].partitions[0].error_code is ErrorCode.group_id_not_found
    assert talk.beat("A").error_code is ErrorCode.none


def test_a_share_member_finds_no_group_of_another_type() -> None:
    other = ConsumerTalk()
    other.join("B")
    joined = asks_share(other, 0, ("a",))
    assert (joined.error_code, joined.error_message) == (
        ErrorCode.group_id_not_found,
        f"Group {GROUP} is not a share group.",
    )
    assert asks_share(other, -1, None).error_message == f"Group {GROUP} is not a share group."
    assert asks_share(other, other.client("B").epoch, None).error_code is (
        ErrorCode.group_id_not_found
    )


def asks_share(talk: ConsumerTalk, epoch: int, topics: Any) -> Any:
    """Send a ShareGroupHeartbeat as the member B of a consumer group."""
    return talk.ask(
        ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=talk.client("B").member_id,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=topics,
        ),
        1,
    )


def test_a_steady_heartbeat_may_be_repeated_until_something_changes() -> None:
    talk = ShareTalk()
    talk.join("A")
    talk.beat("A")
    talk.beat("A")
    lease = talk.last_reply().lease
    assert lease is not None
    session = talk.context.modern_runtime[GROUP].sessions[talk.client("A").member_id]
    assert session.stamp == lease.stamp
    before = len(talk.records)
    talk.beat("A")
    assert len(talk.records) == before
    talk.set_topics(a=5, b=2)
    assert session.stamp != lease.stamp


CURRENT = ShareGroupCurrentMemberAssignmentKey("g", "m")


def test_a_current_assignment_has_kafkas_bytes() -> None:
    numbers = TopicNumbers()
    first, second = numbers.number(b"1" * 16), numbers.number(b"2" * 16)
    places = {first << TOPIC_SHIFT | 3: 0, second << TOPIC_SHIFT: 0, second << TOPIC_SHIFT | 1: 0}
    current = CurrentAssignment(5, 4, 0, places, {})
    written = write_current(current, numbers)
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=5,
        previous_member_epoch=4,
        state=0,
        assigned_partitions=(
            TargetTopicPartitions(topic_id=UUID(bytes=b"1" * 16), partitions=(3,)),
            TargetTopicPartitions(topic_id=UUID(bytes=b"2" * 16), partitions=(0, 1)),
        ),
    )
    assert written == encode_value(CURRENT, value)
    assert read_current(written, numbers) == current
    nothing = CurrentAssignment(1, 0, 0, {}, {})
    assert read_current(write_current(nothing, numbers), numbers) == nothing


def test_which_topics_have_share_state_survives_its_record() -> None:
    one, two = topic_id("a"), topic_id("b")
    state = StateTopics(
        initializing={one: StateTopic("a", frozenset({2, 3}))},
        initialized={one: StateTopic("a", frozenset({0, 1}))},
        deleting={two: "b"},
    )
    key = ShareGroupStatePartitionMetadataKey("g")
    encoded = encode_value(key, state.record())
    from protocol.records import Record, encode

    record = decode(*encode(Record(key, state.record())))
    assert encoded is not None
    assert StateTopics.of(record.value) == state
    assert state.done(state.initializing).initialized[one].partitions == {0, 1, 2, 3}
    assert state.beginning({two: StateTopic("b", frozenset({0}))}).deleting == {}
    removing = state.removing({one: "a"})
    assert (removing.initialized, removing.deleting) == ({}, {one: "a", two: "b"})
    assert not state.without([one, two])


def test_a_leader_that_does_not_know_new_partitions_yet_assigns_them_when_it_does() -> None:
    talk = ShareTalk(interval_ms=1_000)
    for count in (4, 6):
        talk.set_topics(a=count)
        talk.join("A")
    talk.beat("A")
    assert talk.group.assignment_epoch < talk.group.epoch
    talk.topics = {"a": 4}
    talk.failover()
    talk.advance(1_000)
    assert talk.group.assignment_epoch == talk.group.epoch
    talk.set_topics(a=6)
    talk.beat("A")
    talk.advance(1_000)
    talk.beat("A")
    assert talk.owned("A") == [6]


def test_a_topic_that_is_deleted_while_share_state_comes_is_dropped() -> None:
    talk = ShareTalk(holds_calls=True)
    talk.join("A", ("a", "b"))
    talk.answer_calls()
    talk.settle()
    talk.set_topics(a=6, b=2)
    talk.beat("A")
    (call,) = talk.calls
    done = talk.ask_share_state(call.request)
    deleted = {"b": frozenset({topic_id("b")})}
    talk.shard.topics = Topics([Topic(topic_id("a"), "a", 6)], deleted=deleted)
    talk.handle(ShareStateAnswered(group_id=GROUP, call=call.call, response=done))
    talk.settle()
    assert talk.group.state_topics.initialized.keys() == {topic_id("a")}
