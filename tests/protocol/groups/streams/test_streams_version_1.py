"""StreamsGroupHeartbeat 1 and StreamsGroupDescribe 1, as Kafka 4.4 without a description plugin."""

from datetime import timedelta
from typing import Any

import pytest

from protocol.wire import streams_messages as m
from protocol.wire.errors import ErrorCode
from protocol.wire.versions import response_plan
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.streams.streams_talk import StreamsTalk, statuses

TAGS = "group.streams.rack.aware.assignment.tags"
MISSING_ZONE = (
    6,
    "Missing required client tags for rack-aware standby assignment: [zone]. Configure them via"
    " 'client.tag.<tagKey>' in your Streams config.",
)


def tag(key: str, value: str) -> m.StreamsConfig:
    return m.StreamsConfig(key=key, value=value)


def offsets(*tasks: tuple[str, int, int]) -> tuple[m.OwnedTaskOffset, ...]:
    return tuple(
        m.OwnedTaskOffset(subtopology_id=name, partition=index, offset=offset)
        for name, index, offset in tasks
    )


def described(talk: StreamsTalk) -> list[tuple[list[Any], list[Any]]]:
    """Return the offsets and the end offsets of each member."""

    def of(tasks: Any) -> list[tuple[str, int, int]]:
        return [(each.subtopology_id, each.partition, each.offset) for each in tasks]

    members = talk.describe().members
    return [(of(each.task_offsets), of(each.task_end_offsets)) for each in members]


# --- what the answer says of the broker


def test_the_answer_says_how_often_to_report_offsets() -> None:
    talk = StreamsTalk({"group.streams.task.offset.interval.ms": "30000"}, version=1)
    assert talk.join("A").task_offset_interval == timedelta(seconds=30)
    assert talk.beat("A").task_offset_interval == timedelta(seconds=30)
    talk.shard.group_configs = {GROUP: {"streams.task.offset.interval.ms": "20000"}}
    assert talk.beat("A").task_offset_interval == timedelta(seconds=20)


def test_the_recovery_lag_is_told_and_no_description_is_required() -> None:
    talk = StreamsTalk(version=1)
    answer = talk.join("A")
    assert answer.acceptable_recovery_lag == 10_000
    talk.shard.group_configs = {GROUP: {"streams.acceptable.recovery.lag": "7"}}
    assert talk.beat("A").acceptable_recovery_lag == 7
    assert not answer.topology_description_required
    old: Any = response_plan(88, 0).down(answer)
    assert old.acceptable_recovery_lag == 0


# --- offsets of tasks


def test_offsets_of_tasks_are_kept_and_described() -> None:
    talk = StreamsTalk(version=1)
    talk.join("A", task_offsets=(), task_end_offsets=())
    talk.join("B")
    assert described(talk) == [([], []), ([], [])]
    records = len(talk.records)
    talk.beat("A", task_offsets=offsets(("0", 1, 7)), task_end_offsets=offsets(("0", 1, 9)))
    assert described(talk) == [([("0", 1, 7)], [("0", 1, 9)]), ([], [])]
    talk.beat("A", task_offsets=offsets(("0", 2, 8)))  # null: as before
    talk.beat("A")
    assert described(talk)[0] == ([("0", 2, 8)], [("0", 1, 9)])
    assert not [each for each in talk.records[records:] if "ffset" in repr(each)]
    talk.leave("A")
    assert described(talk) == [([], [])]


def test_offsets_of_tasks_that_there_are_not_are_dropped() -> None:
    talk = StreamsTalk(version=1)
    told = offsets(("0", 0, 1), ("0", 3, 1), ("0", -1, 1), ("other", 0, 1))
    talk.join("A", task_offsets=told)
    assert described(talk) == [([("0", 0, 1)], [])]


def test_a_new_leader_knows_no_offsets_until_it_is_told() -> None:
    talk = StreamsTalk(version=1)
    talk.join("A", task_offsets=offsets(("0", 0, 1)))
    talk.failover()
    assert described(talk) == [([], [])]
    talk.beat("A", task_offsets=offsets(("0", 0, 2)))
    assert described(talk) == [([("0", 0, 2)], [])]


@pytest.mark.parametrize("field", ["task_offsets", "task_end_offsets"])
def test_a_task_has_one_offset(field: str) -> None:
    talk = StreamsTalk(version=1)
    answer = talk.join("A", **{field: offsets(("0", 1, 7), ("0", 1, 8))})
    assert answer.error_code is ErrorCode.invalid_request
    assert answer.error_message == (
        "Task offsets contain a duplicate entry for subtopology 0 and partition 1."
    )
    assert not talk.records


@pytest.mark.parametrize("field", ["task_offsets", "task_end_offsets"])
def test_version_0_reports_no_offsets(field: str) -> None:
    answer = StreamsTalk().join("A", **{field: ()})
    assert answer.error_code is ErrorCode.invalid_request
    assert answer.error_message.endswith("are not supported yet.")


# --- tags


@pytest.mark.parametrize(
    ("version", "tags", "told"),
    [
        (1, (), [MISSING_ZONE]),
        (1, (tag("rack", "r1"),), [MISSING_ZONE]),
        (1, (tag("zone", "z1"),), []),
        (0, (), []),  # KAFKA-20744: older clients do not know the status
    ],
)
def test_a_member_without_a_required_tag_is_told_so(
    version: int, tags: tuple[m.StreamsConfig, ...], told: list[tuple[int, str]]
) -> None:
    talk = StreamsTalk({TAGS: "zone"}, version=version)
    assert statuses(talk.join("A", client_tags=tags)) == told
    for _ in range(3):
        assert statuses(talk.beat("A")) == told


def test_all_missing_tags_are_named_and_other_statuses_come_first() -> None:
    talk = StreamsTalk({TAGS: "zone,rack"}, version=1, topics={})
    codes = [code for code, _ in statuses(talk.join("A"))]
    assert codes == [1, 6]
    assert "[zone, rack]" in statuses(talk.beat("A"))[-1][1]


def test_a_group_may_require_tags_of_its_own() -> None:
    talk = StreamsTalk(version=1)
    assert statuses(talk.join("A")) == []
    talk.shard.group_configs = {GROUP: {"streams.rack.aware.assignment.tags": "zone"}}
    talk.advance(10)
    assert [code for code, _ in statuses(talk.beat("A"))][-1:] == [6]


# --- describe


def test_the_assignor_is_described() -> None:
    talk = StreamsTalk(version=1)
    talk.join("A")
    assert talk.describe().assignor_name == "sticky"
    assert talk.describe("other").assignor_name is None


@pytest.mark.parametrize(("is_asked", "status"), [(False, 0), (True, 1)])
def test_no_description_of_a_topology_is_stored(is_asked: bool, status: int) -> None:
    talk = StreamsTalk(version=1)
    talk.join("A")
    group = talk.describe(topology=is_asked)
    assert (group.topology_description, group.topology_description_status) == (None, status)
    absent = talk.describe("other", topology=is_asked)
    assert absent.error_code is ErrorCode.group_id_not_found
    assert absent.topology_description_status == 0
