"""The table of APIs against Kafka's own, and the places where errors go."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.wire import messages as m
from protocol.wire.apis import (
    API,
    Route,
    api_versions_response,
    error_response,
    for_groups,
    group_id,
    group_ids,
    merge,
)
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.frames import UnsupportedApiVersion, decode_request, encode_response
from protocol.wire.kafka_4_4.index import GENERATED
from tests.effort import examples
from tests.java_support import run_java
from tests.protocol.wire.strategies import messages

CODE = ErrorCode.not_coordinator
KEYS = sorted(API)
VERSIONS = [(a.key, v) for a in API.values() for v in range(a.min_version, a.max_version + 1)]


@pytest.mark.thorough
def test_every_api_is_served_in_exactly_kafkas_stable_versions() -> None:
    """Those of the Java client, which is 4.3.1, and the later ones that are of Kafka 4.4."""
    kafkas = {}
    for line in run_java("VersionCheck").splitlines():
        if line.startswith("api\t"):
            _, key, _, low, high = line.split("\t")
            kafkas[int(key)] = (int(low), int(high))
    for key, version in GENERATED:
        assert kafkas[key][1] == version - 1
        kafkas[key] = (kafkas[key][0], version)
    ours = {api.key: (api.min_version, api.max_version) for api in API.values()}
    assert ours == {key: kafkas[key] for key in ours}


def test_api_versions_lists_the_table() -> None:
    listed = api_versions_response().api_keys
    assert [(each.api_key, each.min_version, each.max_version) for each in listed] == [
        (api.key, api.advertised_min_version, api.max_version) for api in API.values()
    ]
    assert [each.api_key for each in listed] == KEYS


def test_transactions_are_not_advertised() -> None:
    assert not {24, 25, 26, 27, 28, 65} & set(API)


@pytest.mark.parametrize("version", range(7))
def test_offsets_of_transactions_close_the_connection_in_every_version(version: int) -> None:
    """TxnOffsetCommit 6 is Kafka 4.4's: it names topics by id (KIP-1319)."""
    frame = struct.pack(">hhih", 28, version, 1, 0) + bytes(40)
    with pytest.raises(UnsupportedApiVersion) as refused:
        decode_request(frame)
    assert refused.value.answer is None


@pytest.mark.parametrize(("key", "version"), VERSIONS)
@settings(max_examples=examples(3), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_request_can_be_refused_in_any_version(
    key: int, version: int, data: st.DataObject
) -> None:
    request = data.draw(messages(API[key].request))
    one = {9: "groups", 10: "coordinator_keys", 13: "members"}.get(key)
    if one and version < API[key].max_version and len(getattr(request, one)) != 1:
        return
    refusal = error_response(key, request, CODE, "why", version)
    assert isinstance(refusal, API[key].response)
    encode_response(key, version, 1, refusal)


def codes(answer: Any) -> set[ErrorCode]:
    """Collect every error code of an answer."""
    found = set()
    for name in answer.__dataclass_fields__:
        value = getattr(answer, name)
        if isinstance(value, ErrorCode):
            found.add(value)
        for one in value if isinstance(value, tuple) else ():
            if hasattr(one, "__dataclass_fields__"):
                found |= codes(one)
    return found


def test_offset_commit_keeps_its_error_in_every_partition() -> None:
    partitions = tuple(
        m.OffsetCommitRequestPartition(partition_index=n, committed_offset=1, committed_metadata="")
        for n in range(3)
    )
    topic = m.OffsetCommitRequestTopic(topic_id=UUID(int=3), name="t", partitions=partitions)
    request = m.OffsetCommitRequest(group_id="g", member_id="", topics=(topic,))
    answer: Any = error_response(8, request, CODE)
    assert answer.topics[0].topic_id == UUID(int=3)
    assert answer.topics[0].name == "t"
    assert [each.partition_index for each in answer.topics[0].partitions] == [0, 1, 2]
    assert codes(answer) == {CODE}


@pytest.mark.parametrize(
    "key", [11, 12, 13, 14, 16, 17, 22, 29, 35, 43, 45, 46, 47, 48, 50, 60, 66, 74]
)
def test_these_keep_their_error_at_the_top(key: int) -> None:
    answer: Any = error_response(key, blank(API[key].request), CODE)
    assert answer.error_code == CODE


def test_offset_fetch_keeps_its_error_in_the_group_and_in_version_1_in_the_partitions() -> None:
    topic = m.OffsetFetchRequestTopics(topic_id=None, name="t", partition_indexes=(4,))
    group = m.OffsetFetchRequestGroup(group_id="g", topics=(topic,))
    request = m.OffsetFetchRequest(groups=(group,))
    answer: Any = error_response(9, request, CODE, api_version=2)
    assert (answer.groups[0].error_code, answer.groups[0].topics) == (CODE, ())
    old: Any = error_response(9, request, CODE, api_version=1)
    partition = old.groups[0].topics[0].partitions[0]
    assert (partition.error_code, partition.committed_offset, partition.partition_index) == (
        CODE, -1, 4,
    )  # fmt: skip


def test_fetch_before_13_keeps_its_error_in_the_partitions_too() -> None:
    partition = blank(m.FetchPartition, partition=2)
    topic = m.FetchTopic(topic_id=None, topic="t", partitions=(partition,))
    request = blank(m.FetchRequest, topics=(topic,))
    old: Any = error_response(1, request, CODE, api_version=12)
    assert old.error_code == CODE
    assert old.responses[0].partitions[0].error_code == CODE
    newest: Any = error_response(1, request, CODE)
    assert (newest.error_code, newest.responses) == (CODE, ())


def test_join_group_echoes_the_member_id_where_kafka_does() -> None:
    request = blank(m.JoinGroupRequest, group_id="g", member_id="m")
    for code, member_id in [(ErrorCode.unknown_member_id, "m"), (ErrorCode.not_coordinator, "")]:
        answer: Any = error_response(11, request, code)
        assert (answer.member_id, answer.generation_id, answer.protocol_name) == (
            member_id, -1, None,
        )  # fmt: skip


def test_a_requests_group_routes_it() -> None:
    for api in API.values():
        if api.route is Route.GROUP:
            assert group_id(blank(api.request, group_id="g")) == "g"


def described(name: str) -> m.DescribedGroup:
    return blank(m.DescribedGroup, group_id=name, group_state="Stable")


def test_a_request_for_many_groups_is_cut_up_and_its_answers_joined_in_order() -> None:
    request = blank(m.DescribeGroupsRequest, groups=("a", "b", "c", "a"))
    assert group_ids(15, request) == ("a", "b", "c", "a")
    part: Any = for_groups(15, request, lambda name: name != "b")
    assert part.groups == ("a", "c", "a")
    answers = [
        blank(m.DescribeGroupsResponse, groups=tuple(map(described, names)))
        for names in (("b",), ("c", "a", "a"))
    ]
    merged: Any = merge(15, request, answers)
    assert [group.group_id for group in merged.groups] == ["a", "b", "c", "a"]


def test_offset_fetches_and_deletions_are_cut_up_and_joined_too() -> None:
    fetches = tuple(m.OffsetFetchRequestGroup(group_id=name, topics=None) for name in "ab")
    request = m.OffsetFetchRequest(groups=fetches, require_stable=True)
    part: Any = for_groups(9, request, "a".__eq__)
    assert (group_ids(9, part), part.require_stable) == (("a",), True)
    deletions = m.DeleteGroupsRequest(groups_names=("x", "y"))
    halves = [
        blank(
            m.DeleteGroupsResponse,
            results=(m.DeletableGroupResult(group_id=name, error_code=CODE),),
        )
        for name in "yx"
    ]
    merged: Any = merge(42, deletions, halves)
    assert [each.group_id for each in merged.results] == ["x", "y"]


def test_an_error_says_its_code_and_its_sentence() -> None:
    assert str(KafkaError(CODE)) == "NOT_COORDINATOR"
    assert str(KafkaError(CODE, "not here")) == "NOT_COORDINATOR: not here"
