"""Flat arrays say the same as the names, sets and records that they were made of."""

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from protocol.assignors import flat
from protocol.assignors.cached_racks import CachedRacks
from protocol.assignors.cached_subscriptions import SPARE_NAMES, CachedSubscriptions
from protocol.assignors.decode import decode_targets
from protocol.assignors.flat import (
    FlatSubscriptions,
    FlatTargets,
    SubscriptionRow,
    SubscriptionRows,
    pieces,
)
from protocol.assignors.spec import NOBODY
from protocol.groups.effects import MemberRow
from protocol.groups.modern.assignment_records import read_target, write_target
from protocol.groups.topic_numbers import TOPIC_SHIFT, TopicNumbers
from protocol.groups.topic_row import TopicRow

names = st.sampled_from([f"t{number}" for number in range(9)])
subscriptions = st.dictionaries(st.integers(0, 2**40), st.frozensets(names), max_size=6)


@given(subscriptions, st.integers(1, 7))
def test_subscriptions_read_as_they_were_whatever_the_size_of_a_piece(
    told: dict[int, frozenset[str]], names_max: int
) -> None:
    parts = list(pieces(told, names_max))
    assert all(len(part.indexes) <= names_max for part in parts)
    read = FlatSubscriptions(parts)
    assert dict(read) == told
    assert len(set(read.names)) == len(read.names)


@given(subscriptions, st.sampled_from([1, 4, 20_000]), st.sampled_from([1, 3, 10_000]))
def test_rows_of_numbers_read_as_the_names_that_they_stand_for(
    told: dict[int, frozenset[str]], indexes_max: int, names_max: int
) -> None:
    listed = [*sorted(frozenset().union(*told.values())), ""]
    place = {name: number for number, name in enumerate(listed)}
    rows = SubscriptionRows(
        listed,
        [
            SubscriptionRow(number, np.array([place[name] for name in names], np.int32))
            for number, names in told.items()
        ],
    )
    assert dict(rows) == told
    with patch.multiple(flat, PIECE_INDEXES=indexes_max, PIECE_NAMES=names_max):
        parts = list(pieces(rows))
    assert all(len(part.names) <= names_max for part in parts)
    assert all(len(part.indexes) < indexes_max + len(listed) for part in parts)
    assert dict(FlatSubscriptions(parts)) == told


@given(st.lists(st.tuples(subscriptions, st.lists(names, unique=True)), min_size=1, max_size=4))
def test_the_classes_of_a_group_are_the_topics_that_its_subscriptions_name(
    steps: list[tuple[dict[int, frozenset[str]], list[str]]],
) -> None:
    held, known = CachedSubscriptions(), dict[int, frozenset[str]]()
    for told, topics in steps:
        held.take_topics(topics)
        held.update(FlatSubscriptions.of(told))
        known.update(told)
        if len(known) > 3:
            gone = min(known)
            held.drop(gone)
            del known[gone]
        starts, found = held.classes()
        assert held.numbers() == sorted(known)
        for place, number in enumerate(sorted(known)):
            row = found[starts[place] : starts[place + 1]].tolist()
            assert row == [at for at, name in enumerate(topics) if name in known[number]]


def test_names_that_nobody_subscribes_to_any_more_are_forgotten() -> None:
    held = CachedSubscriptions()
    held.take_topics(["t", "other"])
    for step in range(10):
        fresh = frozenset({"t", *(f"{step}-{number}" for number in range(SPARE_NAMES // 2))})
        held.update(FlatSubscriptions.of({step: fresh}))
        if step:
            held.drop(step - 1)
    assert len(held._names) < 6 * SPARE_NAMES
    starts, found = held.classes()
    assert (starts.tolist(), found.tolist()) == ([0, 1], [0])


targets = st.dictionaries(
    st.integers(0, 9), st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 5))), max_size=5
)


@given(targets, st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_target_assignments_are_read_from_the_bytes_of_their_records(
    told: dict[int, frozenset[tuple[int, int]]], sizes: list[int]
) -> None:
    numbers = TopicNumbers()
    ids = [numbers.ids[numbers.number(bytes([topic]) * 16)] for topic in range(5)]
    starts = np.cumsum([0, *sizes], dtype=np.int32)
    values = [
        (str(member), write_target([t << TOPIC_SHIFT | index for t, index in found], numbers))
        for member, found in told.items()
    ]
    places = np.array(list(told), np.int32)
    known = b"".join(ids[: len(sizes)])
    owner, is_whole = decode_targets(FlatTargets.of(values), places, known, starts)
    wanted = [NOBODY] * int(starts[-1])
    for place, (member, value) in enumerate(zip(told, values, strict=True)):
        exist = {
            (topic, index)
            for topic, index in told[member]
            if topic < len(sizes) and index < sizes[topic]
        }
        assert is_whole[place] == (exist == told[member])
        assert len(read_target(value[1], numbers)) == len(told[member])
        for topic, index in exist:
            wanted[int(starts[topic]) + index] = member
    overlaps = sum(map(len, told.values())) > len(frozenset().union(*told.values()))
    assert overlaps or owner.tolist() == wanted


@given(st.binary(max_size=60))
def test_bytes_that_are_no_target_assignment_harm_nobody(value: bytes) -> None:
    told = FlatTargets.of([("m", value), ("n", b"\0\0\1\0")])
    places = np.array([0, 1], np.int32)
    owner, is_whole = decode_targets(told, places, bytes(16), np.array([0, 3], np.int32))
    assert set(owner.tolist()) <= {NOBODY, 0}
    assert is_whole[1]


def test_racks_are_numbers_that_members_and_partitions_share() -> None:
    topics = [TopicRow(b"a" * 16, "a", 2, (("x", "y"), ("y",))), TopicRow(b"b" * 16, "b", 1)]
    members = [MemberRow("m", None, rack, 0) for rack in ("y", None, "elsewhere", "x")]
    starts, racks, of_members = CachedRacks().arrays(topics, members)
    assert starts.tolist() == [0, 2, 3, 3]
    assert set(racks[:2].tolist()) == {of_members[0], of_members[3]}
    assert racks[2] == of_members[0]
    assert of_members[1:3].tolist() == [NOBODY, NOBODY]
    assert all(len(each) == 0 for each in CachedRacks().arrays(topics[1:], members))
