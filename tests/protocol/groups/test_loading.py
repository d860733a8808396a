"""Replaying the rows of a log: the same state as record by record, only sooner."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.config import Configs
from protocol.groups.dispatch import Tables
from protocol.groups.shard import GroupShard
from protocol.groups.topics import Topics
from protocol.records import (
    RECORD_TYPES,
    BadRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    UnknownRecordType,
    decode,
    encode,
)
from protocol.unread import Row
from protocol.wire.convert import blank
from tests.protocol.groups.earlier import EARLIER


def offset(at: int) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=at, metadata="", commit_timestamp=at, expire_timestamp=-1, topic_id=None
    )


NAMES = st.sampled_from(["a", "ab", "b"])
COMMITS = st.builds(
    lambda group, topic, index, at: encode(
        Record(OffsetCommitKey(group, topic, index), None if at is None else offset(at))
    ),
    NAMES, NAMES, st.integers(0, 3), st.none() | st.integers(0, 9),
)  # fmt: skip
GROUPS = st.builds(
    lambda group, generation: encode(
        Record(
            GroupMetadataKey(group),
            GroupMetadataValue(
                protocol_type="", generation=generation, protocol=None, leader=None, members=()
            ),
        )
    ),
    NAMES, st.integers(0, 3),
)  # fmt: skip
STRANGE = st.sampled_from(
    [
        (b"\x7f\x00key", b"\0\0"),  # a newer type of record
        (encode(Record(OffsetCommitKey("a", "a", 0), None))[0], b"\0\x09"),  # a newer version
    ]
)
ROWS = st.lists(st.one_of(COMMITS, COMMITS, COMMITS, GROUPS, STRANGE), max_size=40)


def shard(tables: Tables | None = None) -> GroupShard:
    return GroupShard(Configs({}), Topics([]), random.Random(1), tables)


def one_by_one(rows: list[Row]) -> tuple[GroupShard, int]:
    loaded, skipped = shard(), 0
    for key, value in rows:
        try:
            loaded.replay(decode(key, value))
        except UnknownRecordType:
            skipped += 1
    return loaded, skipped


@given(rows=ROWS, in_key_order=st.booleans())
def test_rows_replayed_together_lead_where_they_lead_one_by_one(
    rows: list[Row], in_key_order: bool
) -> None:
    if in_key_order:
        rows = sorted(dict(rows).items())
    expected, skipped = one_by_one(rows)
    loaded = shard()
    assert loaded.replay_rows(rows) == (len(rows), skipped)
    assert loaded._context.offsets == expected._context.offsets
    assert loaded._context.groups == expected._context.groups


ONE_OFFSET = [encode(Record(OffsetCommitKey("a", "t", 0), offset(1)))]


def test_the_values_of_a_run_of_offsets_stay_unread() -> None:
    rows = [encode(Record(OffsetCommitKey("a", "t", index), offset(index))) for index in range(5)]
    loaded = shard()
    assert loaded.replay_rows(rows) == (5, 0)
    place = loaded._context.offsets["a"]["t"]
    assert place.stored == {index: row[1] for index, row in enumerate(rows)}
    assert place == {index: offset(index) for index in range(5)}


def test_a_record_that_can_not_be_read_is_not_passed_over() -> None:
    with pytest.raises(BadRecord):
        shard().replay_rows([(b"\0\2", b"\0\3")])


@pytest.mark.parametrize("key", [each for each in RECORD_TYPES if each not in EARLIER.replays])
def test_a_known_type_that_nothing_replays_is_skipped_and_counted(key: type) -> None:
    """So a log that a later version has written can be read, and downgraded to this one."""
    tombstone = encode(Record(blank(key), None))
    assert shard(EARLIER).replay_rows([tombstone, *ONE_OFFSET]) == (2, 1)


def test_a_group_of_a_later_type_in_the_log_is_passed_over() -> None:
    value = ShareGroupMetadataValue(epoch=2, metadata_hash=0)
    loaded = shard(EARLIER)
    rows = [encode(Record(ShareGroupMetadataKey(group_id="s"), value)), *ONE_OFFSET]
    assert loaded.replay_rows(rows) == (2, 1)
    assert "s" not in loaded._context.groups
    assert loaded._context.offsets == {"a": {"t": {0: offset(1)}}}
