"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets (KIP-932)."""

from __future__ import annotations

from typing import Any

from kio.schema.alter_share_group_offsets.v0 import request as alter_request
from kio.schema.delete_share_group_offsets.v0 import request as delete_request
from kio.schema.describe_share_group_offsets.v1 import request as describe_request

from protocol.groups.share.state_topics import StateTopic, StateTopics
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.consumer.consumer_talk import ConsumerTalk
from tests.protocol.groups.conversation import GROUP, topic_id
from tests.protocol.groups.share.share_talk import ShareTalk

NONE = ErrorCode.none
UNKNOWN = ErrorCode.unknown_topic_or_partition
NOT_HOSTED = "This server does not host this topic-partition."


def described(talk: ShareTalk, **topics: list[int]) -> list[tuple[str, int, int, int]]:
    """The start offset and lag of each partition asked for; without any, of all."""
    asked = tuple(
        describe_request.DescribeShareGroupOffsetsRequestTopic(
            topic_name=name, partitions=tuple(indexes)
        )
        for name, indexes in topics.items()
    )
    group = describe_request.DescribeShareGroupOffsetsRequestGroup(
        group_id=GROUP, topics=asked or None
    )
    answer = talk.ask(describe_request.DescribeShareGroupOffsetsRequest(groups=(group,)), 1)
    (found,) = answer.groups
    assert found.error_code is NONE
    return [
        (topic.topic_name, each.partition_index, each.start_offset, each.lag)
        for topic in found.topics
        for each in topic.partitions
    ]


def altered(talk: Any, **topics: dict[int, int]) -> Any:
    return talk.ask(
        alter_request.AlterShareGroupOffsetsRequest(
            group_id=GROUP,
            topics=tuple(
                alter_request.AlterShareGroupOffsetsRequestTopic(
                    topic_name=name,
                    partitions=tuple(
                        alter_request.AlterShareGroupOffsetsRequestPartition(
                            partition_index=index, start_offset=offset
                        )
                        for index, offset in offsets.items()
                    ),
                )
                for name, offsets in topics.items()
            ),
        ),
        0,
    )


def codes(answer: Any) -> list[tuple[str, int, ErrorCode, str | None]]:
    return [
        (topic.topic_name, each.partition_index, each.error_code, each.error_message)
        for topic in answer.responses
        for each in topic.partitions
    ]


def deleted(talk: Any, *names: str) -> Any:
    topics = tuple(
        delete_request.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names
    )
    return talk.ask(delete_request.DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=topics), 0)


def results(answer: Any) -> list[tuple[str, ErrorCode, str | None]]:
    return [(each.topic_name, each.error_code, each.error_message) for each in answer.responses]


def test_offsets_of_an_empty_group_are_altered_described_and_deleted() -> None:
    talk = ShareTalk()
    assert described(talk) == []
    answer = altered(talk, b={0: 7, 2: 1}, c={0: 5})
    assert codes(answer) == [
        ("b", 0, NONE, None),
        ("b", 2, UNKNOWN, NOT_HOSTED),
        ("c", 0, UNKNOWN, NOT_HOSTED),
    ]
    assert talk.group.state == "Empty"
    assert described(talk) == [("b", 0, 7, -7)]
    talk.failover(from_compacted=True)
    assert described(talk, c=[1], b=[0, 1]) == [("b", 0, 7, -7), ("b", 1, -1, -1), ("c", 1, -1, -1)]
    assert results(deleted(talk, "b", "a", "c")) == [
        ("a", UNKNOWN, "There is no offset information to delete."),
        ("c", UNKNOWN, NOT_HOSTED),
        ("b", NONE, None),
    ]
    assert described(talk) == []
    assert not talk.share_state.has_groups
    assert results(deleted(talk, "b")) == []  # Kafka says nothing of a group without share state


def test_a_group_whose_offsets_were_deleted_is_deleted_with_all_its_records() -> None:
    talk = ShareTalk()
    altered(talk, a={0: 7})
    deleted(talk, "a")
    assert talk.delete(GROUP) == [NONE]
    talk.failover(from_compacted=True)
    assert not talk.shard.has_groups


def test_a_member_begins_where_the_offset_was_set() -> None:
    talk = ShareTalk()
    altered(talk, a={1: 9})
    talk.join("A")
    talk.beat("A")
    assert talk.owned("A") == [4]
    assert described(talk) == [
        ("a", 0, -1, -1),
        ("a", 1, 9, -9),
        ("a", 2, -1, -1),
        ("a", 3, -1, -1),
    ]


def test_offsets_of_a_group_in_use_are_neither_altered_nor_deleted() -> None:
    talk = ShareTalk()
    talk.join("A")
    for answer in (altered(talk, a={0: 1}), deleted(talk, "a")):
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.non_empty_group,
            "The group is not empty.",
        )
    talk.leave("A")
    assert codes(altered(talk, a={0: 1})) == [("a", 0, NONE, None)]
    assert described(talk, a=[0]) == [("a", 0, 1, -1)]


def test_a_group_of_another_type_has_no_share_offsets() -> None:
    talk = ConsumerTalk()
    talk.join("A")
    for answer in (altered(talk, a={0: 1}), deleted(talk, "a")):
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.group_id_not_found,
            f"Group {GROUP} is not a share group.",
        )
    missing = deleted(ShareTalk(), "a")
    assert (missing.error_code, missing.error_message) == (
        ErrorCode.group_id_not_found,
        f"Group {GROUP} not found.",
    )


def test_share_groups_that_are_switched_off_have_no_offsets() -> None:
    talk = ShareTalk({"share.version": "0"})
    assert altered(talk, a={0: 1}).error_code is ErrorCode.unsupported_version
    assert deleted(talk, "a").error_code is ErrorCode.unsupported_version
    group = describe_request.DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)
    asked = describe_request.DescribeShareGroupOffsetsRequest(groups=(group,))
    assert talk.ask(asked, 1).groups[0].error_code is ErrorCode.unsupported_version


def test_offsets_set_while_share_state_is_created_stay() -> None:
    talk = ShareTalk(topics={"a": 450}, holds_calls=True)
    talk.join("A")
    talk.leave("A")
    assert altered(talk, a={440: 3}) is None
    talk.answer_calls()
    assert codes(talk.answer(talk.tickets)) == [("a", 440, NONE, None)]
    talk.settle()
    talk.holds_calls = False
    assert described(talk, a=[440]) == [("a", 440, 3, -3)]
    assert talk.group.state_topics.initialized[topic_id("a")].partitions == frozenset(range(450))


def test_a_topic_of_which_more_is_initializing_is_removed_as_a_whole() -> None:
    a, name = topic_id("a"), "a"
    state = StateTopics(
        initializing={a: StateTopic(name, frozenset({1}))},
        initialized={a: StateTopic(name, frozenset({0}))},
    )
    assert state.removing({a: name}) == StateTopics(deleting={a: name})


def test_offsets_are_deleted_while_more_are_set() -> None:
    talk = ShareTalk()
    altered(talk, b={0: 7})
    talk.holds_calls = True
    assert altered(talk, b={1: 3}) is None
    assert deleted(talk, "b") is None
    talk.answer_calls()
    assert results(talk.answer(talk.tickets)) == [("b", NONE, None)]
    assert not talk.group.state_topics
    assert not talk.share_state.has_groups
