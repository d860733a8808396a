"""Target assignments written from the owners: the same bytes as the record types write."""

import uuid
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from protocol.assignors.encode import changed_members, encode_targets
from protocol.assignors.spec import NOBODY, GroupSpec, Int32s
from protocol.assignors.uniform import UniformAssignor
from protocol.records import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TargetTopicPartitions,
    encode_value,
)
from tests.protocol.assignors.groups import spec_of, specs, topic_of


def topic_ids(count: int) -> list[uuid.UUID]:
    return [uuid.UUID(int=(topic + 1) << 100 | topic) for topic in range(count)]


def value_of(spec: GroupSpec, owner: Int32s, member: int) -> bytes | None:
    topics: dict[int, list[int]] = {}
    for at, topic in enumerate(topic_of(spec).tolist()):
        if owner[at] == member:
            topics.setdefault(topic, []).append(at - int(spec.partition_starts[topic]))
    ids = topic_ids(spec.topic_count)
    return encode_value(
        ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=tuple(
                TargetTopicPartitions(topic_id=ids[topic], partitions=tuple(partitions))
                for topic, partitions in topics.items()
            )
        ),
    )


def check_bytes(spec: GroupSpec, owner: Int32s, members: Int32s | None) -> None:
    ids = b"".join(each.bytes for each in topic_ids(spec.topic_count))
    targets = encode_targets(spec, owner, ids, members)
    wanted = list(range(spec.member_count)) if members is None else members.tolist()
    assert targets.members.tolist() == wanted
    assert list(targets.values()) == [value_of(spec, owner, member) for member in wanted]


@given(specs(), st.data())
def test_the_bytes_are_those_of_the_record_types(spec: GroupSpec, data: st.DataObject) -> None:
    owner = UniformAssignor().assign(spec).owner
    check_bytes(spec, owner, None)
    some = data.draw(st.sets(st.integers(0, spec.member_count - 1)).map(sorted))
    check_bytes(spec, owner, np.array(some, np.int32))


def test_lengths_of_two_and_three_bytes_are_written_as_the_record_types_do() -> None:
    long = spec_of([20_000, 200, 127], [[0, 1, 2]], [0], None)
    check_bytes(long, UniformAssignor().assign(long).owner, None)
    many = spec_of([1] * 300, [list(range(300))], [0, 0], None)
    check_bytes(many, UniformAssignor().assign(many).owner, None)


@given(specs(owns=True))
def test_changed_members_are_those_whose_partitions_are_others(spec: GroupSpec) -> None:
    owner = UniformAssignor().assign(spec).owner
    before = replace(spec)
    changed = [
        member
        for member in range(spec.member_count)
        if np.any((before.previous_owner == member) != (owner == member))
    ]
    assert changed_members(spec, owner).tolist() == changed
    assert NOBODY not in changed
