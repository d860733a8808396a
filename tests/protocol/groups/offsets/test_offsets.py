"""OffsetCommit, OffsetFetch and OffsetDelete as Kafka 4.3 answers them."""

from uuid import UUID

import pytest

from protocol.groups.effects import TopicsDeleted
from protocol.groups.topics import Topic, Topics
from protocol.records import GroupMetadataKey
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.offsets.offset_talk import (
    AUDIT,
    ORDERS,
    T0,
    OffsetTalk,
    group_record,
    key,
    milliseconds,
)

NONE = ErrorCode.none
UNKNOWN_ID = UUID(int=99)


@pytest.fixture
def talk() -> OffsetTalk:
    return OffsetTalk()


class TestCommit:
    def test_a_simple_consumer_commits_without_generation_and_member(
        self, talk: OffsetTalk
    ) -> None:
        assert talk.commit_offsets("orders", (0, 7, "note"), (3, 8, None)) == [NONE, NONE]
        assert talk.offsets() == {("orders", 0): (7, "note"), ("orders", 3): (8, "")}

    def test_the_value_holds_epoch_time_and_topic_id(self, talk: OffsetTalk) -> None:
        talk.commit_offsets("orders", (0, 7, "note"), leader_epoch=5)
        (record,) = talk.records
        assert record.key == key("orders", 0)
        value = record.value
        assert value is not None
        assert (value.offset, value.leader_epoch, value.metadata) == (7, 5, "note")  # type: ignore[attr-defined]
        assert (value.commit_timestamp, value.expire_timestamp) == (T0, -1)  # type: ignore[attr-defined]
        assert value.topic_id == ORDERS.topic_id  # type: ignore[attr-defined]

    def test_a_retention_time_of_old_versions_becomes_an_expiry_time(
        self, talk: OffsetTalk
    ) -> None:
        talk.commit_offsets("orders", (0, 7, ""), version=4, retention_time=milliseconds(1500))
        assert talk.records[0].value.expire_timestamp == T0 + 1500  # type: ignore[union-attr]

    @pytest.mark.parametrize("length, code", [(5, NONE), (6, ErrorCode.offset_metadata_too_large)])
    def test_metadata_is_limited_per_partition(self, length: int, code: ErrorCode) -> None:
        talk = OffsetTalk({"offset.metadata.max.bytes": "5"})
        assert talk.commit_offsets("orders", (0, 1, "x" * length), (1, 2, "")) == [code, NONE]
        assert len(talk.offsets()) == (2 if code is NONE else 1)

    def test_what_does_not_exist_is_refused_by_itself(self, talk: OffsetTalk) -> None:
        unknown = ErrorCode.unknown_topic_or_partition
        assert talk.commit_offsets("nowhere", (0, 1, "")) == [unknown]
        assert talk.commit_offsets("orders", (4, 1, ""), (-1, 1, ""), (0, 1, "")) == [
            unknown,
            unknown,
            NONE,
        ]

    def test_nothing_to_commit_does_not_ask_the_group(self, talk: OffsetTalk) -> None:
        codes = talk.commit_offsets(
            "nowhere", (0, 1, ""), generation_id_or_member_epoch=3, member_id="m"
        )
        assert codes == [ErrorCode.unknown_topic_or_partition]
        request = m.OffsetCommitRequest(group_id="g", member_id="", topics=())
        nothing = m.OffsetCommitResponse(throttle_time=m.NO_THROTTLE, topics=())
        assert talk.ask(request, 9) == nothing

    def test_version_10_names_topics_by_id(self, talk: OffsetTalk) -> None:
        assert talk.commit_offsets(ORDERS.topic_id, (0, 1, ""), version=10) == [NONE]
        assert talk.commit_offsets(UNKNOWN_ID, (0, 1, ""), version=10) == [
            ErrorCode.unknown_topic_id
        ]
        assert talk.commit_offsets("orders", (0, 1, ""), version=10) == [ErrorCode.unknown_topic_id]
        assert list(talk.offsets()) == [("orders", 0)]

    @pytest.mark.parametrize(
        "version, code", [(8, ErrorCode.illegal_generation), (9, ErrorCode.group_id_not_found)]
    )
    def test_a_generation_of_a_group_that_does_not_exist(
        self, talk: OffsetTalk, version: int, code: ErrorCode
    ) -> None:
        codes = talk.commit_offsets(
            "orders",
            (0, 1, ""),
            version=version,
            generation_id_or_member_epoch=1,
            member_id="m",
        )
        assert codes == [code]
        assert talk.records == []

    @pytest.mark.parametrize(
        "member_id, generation, code",
        [
            ("m0", 1, NONE),
            ("m0", 2, ErrorCode.illegal_generation),
            ("other", 1, ErrorCode.unknown_member_id),
            ("", -1, ErrorCode.unknown_member_id),
        ],
    )
    def test_a_member_commits_in_its_generation(
        self, talk: OffsetTalk, member_id: str, generation: int, code: ErrorCode
    ) -> None:
        talk.replay(group_record(members=1))
        codes = talk.commit_offsets(
            "orders",
            (0, 1, ""),
            generation_id_or_member_epoch=generation,
            member_id=member_id,
        )
        assert codes == [code]

    def test_the_answer_waits_for_the_records_of_its_group(self, talk: OffsetTalk) -> None:
        request = m.OffsetCommitRequest(group_id="g", member_id="", topics=())
        talk.ask(request, 9)
        assert [(ticket, reply.group_id) for ticket, reply in talk.replies.items()] == [(1, "g")]

    def test_answers_keep_the_order_of_the_request(self, talk: OffsetTalk) -> None:
        topics = tuple(
            m.OffsetCommitRequestTopic(
                topic_id=None,
                name=name,
                partitions=(
                    m.OffsetCommitRequestPartition(
                        partition_index=1, committed_offset=1, committed_metadata=None
                    ),
                ),
            )
            for name in ("nowhere", "orders", "audit")
        )
        answer = talk.ask(m.OffsetCommitRequest(group_id="g", member_id="", topics=topics), 9)
        assert [topic.name for topic in answer.topics] == ["nowhere", "orders", "audit"]


class TestFetch:
    def test_a_group_that_does_not_exist_has_committed_nothing(self, talk: OffsetTalk) -> None:
        answer = talk.fetch_offsets({"orders": [0, 1]})
        assert answer.error_code is NONE
        (topic,) = answer.topics
        assert [
            (one.committed_offset, one.committed_leader_epoch, one.metadata, one.error_code)
            for one in topic.partitions
        ] == [(-1, -1, "", NONE)] * 2
        assert talk.fetch_offsets().topics == ()

    def test_partitions_without_a_commit_are_minus_one(self, talk: OffsetTalk) -> None:
        talk.commit_offsets("orders", (1, 7, "note"), leader_epoch=4)
        (topic,) = talk.fetch_offsets({"orders": [0, 1]}).topics
        assert [
            (one.committed_offset, one.committed_leader_epoch, one.metadata)
            for one in topic.partitions
        ] == [(-1, -1, ""), (7, 4, "note")]

    def test_topics_are_asked_for_by_id_from_version_10(self, talk: OffsetTalk) -> None:
        talk.commit_offsets("orders", (0, 7, ""))
        answer = talk.fetch_offsets({UNKNOWN_ID: [0], ORDERS.topic_id: [0]}, version=10)
        assert [
            (topic.topic_id, one.committed_offset, one.error_code)
            for topic in answer.topics
            for one in topic.partitions
        ] == [
            (ORDERS.topic_id, 7, NONE),
            (UNKNOWN_ID, -1, ErrorCode.unknown_topic_id),
        ]

    def test_all_topics_carry_their_ids_from_version_10(self, talk: OffsetTalk) -> None:
        talk.commit_offsets("orders", (0, 7, ""))
        talk.commit_offsets("audit", (1, 8, ""))
        talk.shard.topics = Topics([ORDERS])
        assert [topic.topic_id for topic in talk.fetch_offsets(version=10).topics] == [
            ORDERS.topic_id
        ]
        assert [topic.name for topic in talk.fetch_offsets(version=9).topics] == ["orders", "audit"]

    def test_an_offset_of_an_earlier_topic_of_that_name_is_not_shown(
        self, talk: OffsetTalk
    ) -> None:
        talk.commit_offsets("orders", (0, 7, ""))
        again = Topic(UUID(int=3), "orders", 4)
        talk.shard.topics = Topics([again])
        (topic,) = talk.fetch_offsets({again.topic_id: [0]}, version=10).topics
        assert topic.partitions[0].committed_offset == -1

    def test_several_groups_are_answered_in_order(self, talk: OffsetTalk) -> None:
        talk.commit_offsets("orders", (0, 7, ""), group="b")
        groups = tuple(m.OffsetFetchRequestGroup(group_id=name, topics=None) for name in "ab")
        message = m.OffsetFetchRequest(groups=groups, require_stable=True)
        answer = talk.ask(message, 8)
        assert [(one.group_id, len(one.topics)) for one in answer.groups] == [("a", 0), ("b", 1)]


class TestDelete:
    def test_deletes_by_tombstones(self, talk: OffsetTalk) -> None:
        talk.commit_offsets("orders", (0, 7, ""), (1, 8, ""))
        answer = talk.delete_offsets("orders", 0, 2)
        assert answer.error_code is NONE
        assert [one.error_code for one in answer.topics[0].partitions] == [NONE, NONE]
        assert talk.tombstones() == [key("orders", 0)]
        assert list(talk.offsets()) == [("orders", 1)]

    def test_a_group_that_does_not_exist(self, talk: OffsetTalk) -> None:
        assert talk.delete_offsets("orders", 0).error_code is ErrorCode.group_id_not_found

    def test_topics_with_subscribers_keep_their_offsets(self, talk: OffsetTalk) -> None:
        talk.replay(group_record(members=2))
        for topic in ("orders", "audit"):
            talk.commit_offsets(topic, (0, 7, ""), generation_id_or_member_epoch=1, member_id="m0")
        subscribed = talk.delete_offsets("orders", 0).topics[0].partitions[0]
        assert subscribed.error_code is ErrorCode.group_subscribed_to_topic
        assert talk.delete_offsets("audit", 0).topics[0].partitions[0].error_code is NONE
        assert list(talk.offsets()) == [("orders", 0)]

    def test_members_of_another_protocol_type_keep_everything(self, talk: OffsetTalk) -> None:
        talk.replay(group_record(members=1, protocol_type="connect"))
        assert talk.delete_offsets("orders", 0).error_code is ErrorCode.non_empty_group

    def test_unknown_partitions_are_refused(self, talk: OffsetTalk) -> None:
        talk.commit_offsets("orders", (0, 7, ""))
        unknown = ErrorCode.unknown_topic_or_partition
        for topic, index in (("orders", 9), ("nowhere", 0)):
            assert talk.delete_offsets(topic, index).topics[0].partitions[0].error_code is unknown

    def test_a_group_stays_when_its_last_offset_is_deleted(self, talk: OffsetTalk) -> None:
        talk.commit_offsets("orders", (0, 7, ""))
        talk.delete_offsets("orders", 0)
        assert talk.delete_offsets("orders", 0).error_code is NONE


class TestRemoval:
    def test_deleted_topics_take_their_offsets_along_in_all_groups(self, talk: OffsetTalk) -> None:
        talk.commit_offsets("orders", (0, 7, ""), group="a")
        talk.commit_offsets("orders", (1, 7, ""), group="b")
        talk.commit_offsets("audit", (1, 7, ""), group="b")
        talk.shard.topics = Topics([AUDIT])
        talk.handle(TopicsDeleted(["orders"]))
        assert talk.tombstones() == [key("orders", 0, "a"), key("orders", 1, "b")]
        assert list(talk.offsets("b")) == [("audit", 1)]

    def test_a_topic_created_again_keeps_its_new_offsets(self, talk: OffsetTalk) -> None:
        talk.commit_offsets("orders", (0, 7, ""))
        talk.shard.topics = Topics([Topic(UUID(int=3), "orders", 4)])
        talk.commit_offsets("orders", (1, 8, ""))
        talk.handle(TopicsDeleted(["orders"]))
        assert list(talk.offsets()) == [("orders", 1)]

    def test_a_deleted_group_takes_its_offsets_along(self, talk: OffsetTalk) -> None:
        talk.commit_offsets("orders", (0, 7, ""), (2, 7, ""))
        talk.delete("g")
        assert talk.tombstones() == [
            key("orders", 0),
            key("orders", 2),
            GroupMetadataKey("g"),
        ]
        assert talk.offsets() == {}

    def test_a_group_that_is_deleted_and_commits_in_one_turn_exists_on_a_standby(
        self, talk: OffsetTalk
    ) -> None:
        talk.commit_offsets("orders", (0, 7, ""))
        talk.delete("g")
        talk.commit_offsets("orders", (0, 8, ""))
        committed, _, deleted, again = talk.records  # the second one is overwritten in its turn
        standby = OffsetTalk()
        for record in (committed, deleted, again):
            standby.replay(record)
        assert standby.offsets() == {("orders", 0): (8, "")}
        assert "g" in standby.context.groups
