"""Every version of every API comes up to the newest shape and goes back down."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.wire import messages as m
from protocol.wire.apis import API
from protocol.wire.convert import blank, converter
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import decode_response, encode_response
from protocol.wire.kafka_4_4.index import request_shape, response_shape
from protocol.wire.versions import UnsupportedVersionError, request_plan, response_plan
from protocol.wire.writers import encoder
from tests.effort import examples
from tests.protocol.wire.strategies import messages

VERSIONS = [(a.key, v) for a in API.values() for v in range(a.min_version, a.max_version + 1)]
NAMES = [f"{API[key].name}-v{version}" for key, version in VERSIONS]
QUICK = settings(max_examples=examples(5), suppress_health_check=list(HealthCheck), deadline=None)
ID = UUID(int=7)


def upgrade(key: int, version: int, request: Any) -> Any:
    return request_plan(key, version).up(request)


def downgrade(key: int, version: int, response: Any) -> Any:
    return response_plan(key, version).down(response)


def downgrade_request(key: int, version: int, request: Any) -> Any:
    return request_plan(key, version).down(request)


def upgrade_response(key: int, version: int, response: Any) -> Any:
    return response_plan(key, version).up(response)


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=NAMES)
@QUICK
@given(data=st.data())
def test_a_request_of_any_version_survives_the_way_up_and_down(
    key: int, version: int, data: st.DataObject
) -> None:
    shape = request_shape(key, version)
    old = data.draw(messages(shape))
    newest = upgrade(key, version, old)
    assert type(newest) is API[key].request
    back = downgrade_request(key, version, newest)
    assert encoder(shape)(back) == encoder(shape)(old)


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=NAMES)
@QUICK
@given(data=st.data())
def test_a_response_of_any_version_survives_the_way_up_and_down(
    key: int, version: int, data: st.DataObject
) -> None:
    shape = response_shape(key, version)
    old = data.draw(messages(shape))
    newest = upgrade_response(key, version, old)
    assert type(newest) is API[key].response
    assert encoder(shape)(downgrade(key, version, newest)) == encoder(shape)(old)


def can_be_said(key: int, version: int, answer: Any) -> bool:
    """Tell whether a version can say this: the old ones speak of one group, key or member.

    And an ApiVersions answer with UNSUPPORTED_VERSION is always in version 0 (KIP-511).
    """
    if key == 18 and version > 0 and answer.error_code == ErrorCode.unsupported_version:
        return False
    parts = {(9, 7): "groups", (10, 3): "coordinators", (13, 2): "members"}
    for (api, last), field in parts.items():
        if key == api and version <= last:
            return len(getattr(answer, field)) == 1
    return True


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=NAMES)
@QUICK
@given(data=st.data())
def test_an_answer_built_in_the_newest_shape_can_be_sent_in_every_version(
    key: int, version: int, data: st.DataObject
) -> None:
    answer = data.draw(messages(API[key].response))
    if not can_be_said(key, version, answer):
        return
    frame = encode_response(key, version, 77, answer)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation, read = decode_response(key, version, frame[4:])
    assert correlation == 77
    copied = upgrade_response(key, version, downgrade(key, version, answer))
    assert encode_response(key, version, 77, read) == frame
    assert encode_response(key, version, 77, copied) == frame


@pytest.mark.parametrize("key", [12, 11, 14, 13])
def test_the_newest_version_of_the_hot_apis_is_not_copied(key: int) -> None:
    request = blank(API[key].request)
    assert upgrade(key, API[key].max_version, request) is request
    response = blank(API[key].response)
    assert downgrade(key, API[key].max_version, response) is response


def old(key: int, version: int, /, **values: object) -> Any:
    return blank(request_shape(key, version), **values)


def test_leave_group_before_3_names_one_member() -> None:
    # KIP-345: batch LeaveGroup came with version 3.
    request = upgrade(13, 2, old(13, 2, group_id="g", member_id="m"))
    assert request.members == (m.MemberIdentity(member_id="m"),)
    with pytest.raises(UnsupportedVersionError, match="one member"):
        downgrade_request(13, 2, m.LeaveGroupRequest(group_id="g", members=()))


def test_leave_group_before_3_tells_the_members_error_at_the_top() -> None:
    member = m.MemberResponse(
        member_id="m", group_instance_id=None, error_code=ErrorCode.unknown_member_id
    )
    answer = blank(m.LeaveGroupResponse, members=(member,))
    assert downgrade(13, 0, answer).error_code == ErrorCode.unknown_member_id
    assert downgrade(13, 3, answer).error_code == ErrorCode.none
    top = blank(m.LeaveGroupResponse, error_code=ErrorCode.not_coordinator)
    assert downgrade(13, 1, top).error_code == ErrorCode.not_coordinator


def test_offset_fetch_before_8_asks_for_one_group() -> None:
    request = upgrade(9, 7, old(9, 7, group_id="g", topics=None, require_stable=True))
    assert request == m.OffsetFetchRequest(
        groups=(m.OffsetFetchRequestGroup(group_id="g", topics=None),), require_stable=True
    )


def test_offset_fetch_before_8_is_answered_for_one_group() -> None:
    partition = m.OffsetFetchResponsePartitions(
        partition_index=1, committed_offset=5, metadata="x", error_code=ErrorCode.none
    )
    topic = m.OffsetFetchResponseTopics(topic_id=ID, name="t", partitions=(partition,))
    group = m.OffsetFetchResponseGroup(group_id="g", topics=(topic,))
    answer = m.OffsetFetchResponse(throttle_time=m.NO_THROTTLE, groups=(group,))
    for version in range(1, 8):
        sent = decode_response(9, version, encode_response(9, version, 1, answer)[4:])[1]
        assert sent.groups[0].topics[0].name == "t"
        assert sent.groups[0].topics[0].partitions[0].committed_offset == 5


def test_offset_commit_keeps_the_topics_name_and_its_id() -> None:
    for version, name, topic_id in [(9, "t", None), (10, "", ID)]:
        topics = tuple(
            converter(
                m.OffsetCommitRequestTopic,
                request_shape(8, version).__annotations__["topics"].__args__[0],
            )(topic)
            for topic in (m.OffsetCommitRequestTopic(topic_id=ID, name="t", partitions=()),)
        )
        request = upgrade(8, version, old(8, version, group_id="g", topics=topics))
        assert request.topics[0].name == name
        assert request.topics[0].topic_id == topic_id


def test_offset_commit_2_to_4_may_say_a_retention_time() -> None:
    request = upgrade(8, 4, old(8, 4, group_id="g", retention_time=timedelta(hours=1)))
    assert request.retention_time == timedelta(hours=1)
    assert upgrade(8, 5, old(8, 5, group_id="g")).retention_time == timedelta(milliseconds=-1)


def test_metadata_0_asks_for_all_topics_by_an_empty_list() -> None:
    assert upgrade(3, 0, old(3, 0, topics=())).topics is None
    assert upgrade(3, 1, old(3, 1, topics=())).topics == ()
    assert upgrade(3, 1, old(3, 1, topics=None)).topics is None
    assert upgrade(3, 3, old(3, 3)).allow_auto_topic_creation is True


def test_find_coordinator_before_4_has_one_key() -> None:
    request = upgrade(10, 3, old(10, 3, key="g", key_type=0))
    assert request.coordinator_keys == ("g",)
    found = m.Coordinator(
        key="g", node_id=1, host="h", port=9, error_code=ErrorCode.none, error_message=None
    )
    answer = blank(m.FindCoordinatorResponse, coordinators=(found,))
    sent = downgrade(10, 0, answer)
    assert (sent.node_id, sent.host, sent.port) == (1, "h", 9)


def test_join_group_0_rebalances_within_the_session_timeout() -> None:
    request = upgrade(11, 0, old(11, 0, session_timeout=timedelta(seconds=9)))
    assert request.rebalance_timeout == timedelta(seconds=9)


def test_join_group_before_7_has_no_null_protocol_name() -> None:
    answer = blank(m.JoinGroupResponse, error_code=ErrorCode.unknown_member_id)
    assert answer.protocol_name is None
    for version in range(7):
        assert downgrade(11, version, answer).protocol_name == ""
        encode_response(11, version, 1, answer)


def test_delete_topics_before_6_names_topics() -> None:
    request = upgrade(20, 5, old(20, 5, topic_names=("a", "b")))
    assert [topic.name for topic in request.topics] == ["a", "b"]
    by_id = blank(m.DeleteTopicsRequest, topics=(m.DeleteTopicState(name=None, topic_id=ID),))
    with pytest.raises(UnsupportedVersionError, match="by name only"):
        downgrade_request(20, 5, by_id)


def test_a_copy_meets_the_source_by_field_names_only() -> None:
    shape = request_shape(12, 3)
    copy = converter(shape, m.HeartbeatRequest)
    source = SimpleNamespace(group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    assert copy(source) == m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
