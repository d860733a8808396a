"""What streams groups' members are in, in Kafka's numbers and in ours."""

import pytest

from actors.backup import member_states
from failover.partition_kinds import CATALOG, GROUPS
from protocol.groups.modern.assignment_records import CurrentAssignment
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.streams.task_numbers import SubtopologyNumbers
from protocol.groups.streams.task_records import read_current, write_current
from protocol.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentKey,
    encode_key,
)

KEY = encode_key(StreamsGroupCurrentMemberAssignmentKey("g", "m"))
OTHER = encode_key(ConsumerGroupCurrentMemberAssignmentKey("g", "m"))


def written(state: int) -> bytes:
    return write_current(CurrentAssignment(5, 4, state, {}, {}), SubtopologyNumbers())


def state_of(value: bytes) -> int:
    return read_current(value, SubtopologyNumbers()).state


@pytest.mark.parametrize(
    ("kafkas", "ours"),
    [
        (1, MemberState.STABLE),
        (2, MemberState.UNREVOKED_PARTITIONS),
        (3, MemberState.UNRELEASED_PARTITIONS),
        (127, MemberState.UNKNOWN),
    ],
)
def test_states_are_translated_both_ways(kafkas: int, ours: MemberState) -> None:
    """org.apache.kafka.coordinator.group.streams.MemberState."""
    found = member_states.of_kafka(GROUPS, KEY, written(kafkas))
    assert MemberState(state_of(found)) is ours
    assert member_states.to_kafka(GROUPS, KEY, written(ours)) == written(kafkas)
    for kind, key in ((GROUPS, OTHER), (CATALOG, KEY)):
        assert member_states.of_kafka(kind, key, written(kafkas)) == written(kafkas)
        assert member_states.to_kafka(kind, key, written(ours)) == written(ours)


@pytest.mark.parametrize("kafkas", [0, 4, 126])
def test_a_state_that_kafka_does_not_have_yet_is_unknown(kafkas: int) -> None:
    value = member_states.of_kafka(GROUPS, KEY, written(kafkas))
    assert MemberState(state_of(value)) is MemberState.UNKNOWN
