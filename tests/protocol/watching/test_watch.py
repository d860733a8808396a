"""Whatever a log has, watching goes on; what is kept of it is bounded."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records import OffsetCommitKey, OffsetCommitValue, Record, encode
from protocol.watching import overview, watch
from protocol.watching.committed import Committed, CommittedOffsets
from protocol.watching.watch import OTHERS, ClusterWatch
from tests.effort import examples
from tests.protocol.watching.records import (
    NOW,
    Watched,
    current,
    epoch,
    generation,
    gone,
    joined,
    member,
    targets,
)

ROOT = Path(__file__).resolve().parents[3]
PER_OFFSET, PER_TOPIC, PER_GROUP = 160, 150, 300
"""Bytes that docs/watch.md promises: for an offset, for a topic of a group, and for a group."""


def test_what_is_newer_or_damaged_is_counted_and_left_out() -> None:
    watched = Watched()
    key, value = encode(Record(*generation(1, member("a", 0))))
    assert value is not None
    watched.take(b"\x00\x63later", b"\x00\x00")
    watched.take(key, b"\x00\x09" + value[2:])
    for damaged in (None, b"", b"\x00", key[:4]):
        watched.take(damaged, value)
    watched.take(key, value[:20])
    watched.take(*encode(Record(*current("a", 1, 0)))[:1], b"\x00\x00\x00")
    assert watched.news() == []
    assert sum(watched.watch.unknown.values()) == 2
    assert watched.watch.unreadable == 6
    watched.take(key, value)
    assert len(watched.news()) == 1
    assert watched.watch.records == 9


def test_so_many_unknown_types_are_counted_together() -> None:
    watched = ClusterWatch()
    for number in range(1_000, 1_000 + watch.UNKNOWN_MAX + 10):
        assert list(watched.take(number.to_bytes(2, "big"), None, NOW)) == []
    assert len(watched.unknown) == watch.UNKNOWN_MAX + 1
    assert watched.unknown[OTHERS] == 10


def test_only_the_group_that_is_wanted() -> None:
    watched = ClusterWatch(group_id="other")
    for record in (generation(1, member("a", 0)), joined("a"), epoch(2)):
        assert list(watched.take(*encode(Record(*record)), NOW)) == []
    assert (watched.records, len(watched.outlook.ctx.groups)) == (3, 0)


RECORDS = [
    generation(0),
    generation(1, member("a", 0, 1), member("b", 2, 3)),
    generation(2, member("a", 0, 1, 2, 3)),
    generation(3, member("a", 0, 1, instance="i", member_id="x")),
    (generation(0)[0], None),
    joined("a"),
    joined("b", instance_id="i"),
    joined("b", topics=("u",)),
    epoch(2),
    epoch(3, 2),
    (epoch(1)[0], None),
    *targets(2, {"a": (0,), "b": (1,)}),
    *targets(3, {"b": (0, 1)}),
    current("a", 2, 0),
    current("b", -2, 1),
    current("b", 3, 0, state=1, revoking=(1,)),
    *gone("a"),
    *gone("b"),
]


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from(range(len(RECORDS))), max_size=40))
def test_records_in_any_order_do_not_end_it(order: list[int]) -> None:
    """Compaction leaves a log of which only the end is as a coordinator wrote it."""
    watched = Watched()
    for number in order:
        watched.now += 1_000
        watched.write(RECORDS[number])
    list(watched.watch.flush())
    list(overview.rows(watched.watch.outlook, lambda *_: None))


def commits(count: int, groups: int, topics: int) -> list[tuple[bytes, bytes | None]]:
    """Return commits of so many groups of so many topics each, with metadata that is not kept."""
    rng = random.Random(1)
    return [
        encode(
            Record(
                OffsetCommitKey(
                    f"group-{number % groups}",
                    f"topic-{number // groups % topics}",
                    number // groups // topics,
                ),
                OffsetCommitValue(
                    offset=rng.randrange(1 << 40), metadata="x" * 500, commit_timestamp=NOW
                ),
            )
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("groups", "topics"),
    [(10, 5), (1, 1), (100, 10), (50, 200), (10_000, 1)],
    ids=[
        "many partitions of each topic",
        "one topic of one group",
        "ten partitions of each topic",
        "one partition of each topic",
        "one offset of each group",
    ],
)
def test_an_offset_takes_as_much_memory_as_is_promised(groups: int, topics: int) -> None:
    records = commits(10_000, groups, topics)
    watched = ClusterWatch()
    tracemalloc.start()
    try:
        for key, value in records:
            list(watched.take(key, value, NOW))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(watched.outlook.committed) == len(records)
    promised = PER_OFFSET * len(records) + PER_TOPIC * groups * topics + PER_GROUP * groups
    assert taken < promised


def test_the_memory_of_offsets_is_documented() -> None:
    said = " ".join((ROOT / "docs" / "watch.md").read_text().split())
    bound = f"{PER_OFFSET} bytes each, {PER_TOPIC} for each topic of a group, {PER_GROUP} for each"
    assert bound in said


def test_beyond_their_number_offsets_are_counted() -> None:
    offsets = CommittedOffsets(offsets_max=2)
    for number in (0, 1, 2, 1):
        offsets.put("g", "t", number, Committed(number + 5, NOW))
    assert (len(offsets), offsets.left_out) == (2, 1)
    assert list(offsets.of_group("g")) == [("t", 0, (5, NOW)), ("t", 1, (6, NOW))]
    offsets.remove("g", "t", 0)
    offsets.remove("g", "t", 0)
    offsets.put("h", "t", 2, Committed(7, NOW))
    assert sorted(offsets.groups()) == ["g", "h"]
    assert offsets.last("h", [("t", 1, 0), ("t", 2, 0)]) == (NOW, False)
    assert offsets.last("h", [("t", 2, NOW + 1)]) == offsets.last("g", [("t", 1, NOW + 1)])
    assert offsets.last("z", [("t", 2, 0)]) == (None, False)
    offsets.hand_over("z", [("t", 2)])
    offsets.hand_over("h", [("t", 2), ("t", 1), ("u", 2)])
    assert offsets.last("h", [("t", 2, 0)]) == (None, True)
    assert offsets.get("h", "t", 2) == (7, NOW)
    offsets.put("h", "t", 2, Committed(8, NOW))
    assert offsets.last("h", [("t", 2, 0)]) == (NOW, False)
    offsets.remove("h", "t", 2)
    assert (len(offsets), offsets.count("h"), offsets.get("g", "t", 1)) == (1, 0, (6, NOW))
