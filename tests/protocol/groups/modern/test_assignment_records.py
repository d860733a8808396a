"""The lean reading and writing of assignments: byte by byte what the schemas say."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.config import Configs
from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.modern.assignment_records import (
    CurrentAssignment,
    read_current,
    read_target,
    write_current,
    write_target,
)
from protocol.groups.shard import GroupShard
from protocol.groups.topic_numbers import TOPIC_SHIFT, TopicNumbers, by_topic
from protocol.groups.topics import Topics
from protocol.records import (
    BadRecord,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
    encode_key,
    encode_value,
)
from tests.effort import examples

QUICK = settings(max_examples=examples(80), deadline=None, derandomize=True, database=None)
epochs = st.integers(-2, 2**31 - 1)
partitions = st.dictionaries(
    st.builds(
        lambda topic, index: topic << TOPIC_SHIFT | index,
        st.integers(0, 3),
        st.integers(0, 300) | st.just(2**31 - 1),
    ),
    st.integers(0, 2**31 - 1),
    max_size=200,
)


def numbers() -> TopicNumbers:
    made = TopicNumbers()
    for value in range(4):
        made.number(UUID(int=value + 1).bytes)
    return made


@QUICK
@given(partitions)
def test_a_target_is_written_as_its_schema_says_and_read_again(having: dict[int, int]) -> None:
    known = numbers()
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=tuple(
            TargetTopicPartitions(topic_id=known.uuids[topic], partitions=tuple(indexes))
            for topic, indexes in by_topic(having)
        )
    )
    written = write_target(having, known)
    assert written == encode_value(ConsumerGroupTargetAssignmentMemberKey("g", "m"), value)
    assert read_target(written, known) == having.keys()


@QUICK
@given(epochs, epochs, st.sampled_from([0, 1, 2, 127]), partitions, partitions)
def test_what_a_member_has_is_written_as_its_schema_says_and_read_again(
    epoch: int, previous: int, state: int, assigned: dict[int, int], revoking: dict[int, int]
) -> None:
    known = numbers()

    def topics(having: dict[int, int]) -> tuple[CurrentTopicPartitions, ...]:
        return tuple(
            CurrentTopicPartitions(
                topic_id=known.uuids[topic],
                partitions=tuple(indexes),
                assignment_epochs=tuple(having[topic << TOPIC_SHIFT | each] for each in indexes),
            )
            for topic, indexes in by_topic(having)
        )

    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=previous,
        state=state,
        assigned_partitions=topics(assigned),
        partitions_pending_revocation=topics(revoking),
    )
    current = CurrentAssignment(epoch, previous, state, assigned, revoking)
    written = write_current(current, known)
    assert written == encode_value(ConsumerGroupCurrentMemberAssignmentKey("g", "m"), value)
    assert read_current(written, known) == current


def test_a_partition_without_an_assignment_epoch_has_the_members() -> None:
    known = numbers()
    for epochs_written in ((), None):
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=7,
            previous_member_epoch=6,
            state=0,
            assigned_partitions=(
                CurrentTopicPartitions(
                    topic_id=known.uuids[0], partitions=(1,), assignment_epochs=epochs_written
                ),
            ),
            partitions_pending_revocation=(),
        )
        written = encode_value(ConsumerGroupCurrentMemberAssignmentKey("g", "m"), value)
        assert written is not None
        assert read_current(written, known).assigned == {1: 7}


def test_replays_take_assignments_as_bytes_and_tell_broken_ones() -> None:
    known = numbers()
    shard = GroupShard(Configs({}), Topics(), Random(1))
    current = CurrentAssignment(2, 1, 0, {1: 2}, {})
    rows = [
        (
            encode_key(ConsumerGroupCurrentMemberAssignmentKey("g", "m")),
            write_current(current, known),
        ),
        (
            encode_key(ConsumerGroupTargetAssignmentMemberKey("g", "m")),
            write_target({1}, known),
        ),
    ]
    assert shard.replay_rows(rows) == (2, 0)
    group = shard._context.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert list(group.members["m"].assignment.assigned.values()) == [2]
    assert group.targets["m"] == rows[1][1]
    with pytest.raises(BadRecord):
        shard.replay_rows([(rows[0][0], rows[0][1][:9])])
