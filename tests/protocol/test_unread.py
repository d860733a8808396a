"""Committed offsets that stay bytes until they are looked at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records import (
    BadRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
    decode,
    encode,
    encode_key,
)
from protocol.unread import PARTITION, TopicOffsets, take_offset_commits

values = st.builds(
    OffsetCommitValue,
    offset=st.integers(-1, 2**63 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.text(max_size=20),
    commit_timestamp=st.integers(0, 2**62),
    expire_timestamp=st.just(-1),
    topic_id=st.none() | st.uuids(),
)


def key(partition: int, topic: str = "t") -> OffsetCommitKey:
    return OffsetCommitKey("group", topic, partition)


def row(partition: int, value: OffsetCommitValue, topic: str = "t") -> tuple[bytes, bytes | None]:
    return encode(Record(key(partition, topic), value))


PREFIX = encode_key(key(0))[: -PARTITION.size]
VALUE = OffsetCommitValue(
    offset=5, leader_epoch=1, metadata="m", commit_timestamp=7, expire_timestamp=-1, topic_id=None
)


@given(value=values)
def test_an_unread_value_is_read_when_it_is_asked_for(value: OffsetCommitValue) -> None:
    place = TopicOffsets()
    assert take_offset_commits(iter([row(3, value)]), PREFIX, place) == (1, None)
    assert place.stored[3] == row(3, value)[1]
    assert place.get(3) == place[3] == decode(*row(3, value)).value
    assert place.stored[3] == value
    assert list(place.items()) == [(3, value)]


def test_offsets_are_equal_whether_they_were_read_or_not() -> None:
    read, unread = TopicOffsets(), TopicOffsets()
    for index in (1, 2):
        read[index] = VALUE
        unread[index] = row(index, VALUE)[1] or b""
    assert read == unread == {1: VALUE, 2: VALUE}
    del unread[2]
    assert read != unread


def test_rows_are_taken_until_the_first_of_another_group_or_topic() -> None:
    rows = [row(0, VALUE), row(2**31 - 1, VALUE), row(0, VALUE, topic="t2"), row(1, VALUE)]
    place = TopicOffsets()
    left = iter(rows)
    assert take_offset_commits(left, PREFIX, place) == (2, rows[2])
    assert list(place) == [0, 2**31 - 1]
    assert list(left) == rows[3:]


@pytest.mark.parametrize(
    "other", [None, b"", b"\0", b"\0\5new", b"\1\0", b"\xff\xff"],
    ids=["tombstone", "empty", "short", "newer version", "much newer", "negative version"],
)  # fmt: skip
def test_a_row_that_wants_a_closer_look_is_handed_back(other: bytes | None) -> None:
    strange = (row(1, VALUE)[0], other)
    expected = (1, strange)
    assert take_offset_commits(iter([row(0, VALUE), strange]), PREFIX, TopicOffsets()) == expected


def test_a_key_without_its_partition_is_a_bad_record() -> None:
    with pytest.raises(BadRecord, match="too short to hold its partition"):
        take_offset_commits(iter([(PREFIX + b"\0", row(0, VALUE)[1])]), PREFIX, TopicOffsets())


def test_a_damaged_value_is_found_when_it_is_read() -> None:
    place = TopicOffsets()
    take_offset_commits(iter([(row(0, VALUE)[0], b"\0\3\0")]), PREFIX, place)
    with pytest.raises(BadRecord):
        _ = place[0]
