"""Records that are cut off or altered: they are counted, and nothing else is harmed."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pytest

from protocol.groups.context import Context
from protocol.groups.streams import task_records
from protocol.groups.topics import Topic
from protocol.records import (
    RECORD_TYPES,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
    encode,
)
from protocol.stories import json_form
from protocol.stories.sentence import sentence
from protocol.watching import group_view, modern, overview, troubles
from protocol.watching.troubles import Trouble
from tests.protocol.watching import records as consumer
from tests.protocol.watching import share_records as share
from tests.protocol.watching import streams_records as streams
from tests.protocol.watching.records import NOW, TOPIC, Watched, generation, member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

U, V = UUID(int=0x1234), UUID(int=0x5678)

SOUND: Final[dict[str, list[tuple[Any, Any]]]] = {
    "classic": [
        generation(0),
        generation(1, member("a", 0, 1), member("b", 2, 3, instance="i")),
        (
            OffsetCommitKey("g", "t", 0),
            OffsetCommitValue(offset=5, metadata="m", commit_timestamp=NOW, topic_id=TOPIC),
        ),
    ],
    "consumer": [
        consumer.joined("a", instance_id="i"),
        consumer.joined("b", topics=(), subscribed_topic_regex="t.*"),
        (
            ConsumerGroupRegularExpressionKey("g", "t.*"),
            ConsumerGroupRegularExpressionValue(topics=("t",), version=1, timestamp=NOW),
        ),
        (ConsumerGroupPartitionMetadataKey("g"), ConsumerGroupPartitionMetadataValue(topics=())),
        consumer.epoch(2),
        *consumer.targets(2, {"a": (0, 1), "b": (2,)}),
        consumer.current("a", 2, 0, 1),
        consumer.current("b", 2, 2, state=1, revoking=(3,)),
    ],
    "share": [
        *share.joined("a"),
        *share.joined("b"),
        *share.state({}, {TOPIC: ("t", {0, 1})}),
        *share.epoch(2),
        *share.targets(2, {"a": [(TOPIC, 0)], "b": [(TOPIC, 1)]}),
        *share.current("a", 2, [(TOPIC, 0)]),
        *share.current("b", 2, [(TOPIC, 1)]),
    ],
    "streams": [
        *streams.joined("a"),
        *streams.joined("b"),
        *streams.topology(1),
        *streams.epoch(2, 1, 1, {"num.standby.replicas": "1"}),
        *streams.targets(2, {"a": [("active", "0", 0)], "b": [("standby", "1", 1)]}),
        *streams.current("a", 2, [("active", "0", 0)]),
        *streams.current("b", 2, [("standby", "1", 1)], 2, [("active", "1", 0)]),
    ],
}
"""A group of each type, by all the types of records that it may have."""

GONE: Final[dict[str, list[tuple[Any, Any]]]] = {
    "classic": [generation(2, member("a", 0, 1, 2, 3))],
    "consumer": [*consumer.gone("b"), *consumer.gone("a")],
    "share": [*share.gone("b"), *share.gone("a")],
    "streams": [*streams.gone("b"), *streams.gone("a")],
}
KINDS: Final = tuple(SOUND)


def test_records_of_all_types_are_tried() -> None:
    tried = {type(key) for records in SOUND.values() for key, _ in records}
    assert tried == set(RECORD_TYPES)


def cut(data: bytes) -> Iterator[bytes]:
    """Return the data cut off at each byte."""
    for end in range(len(data)):
        yield data[:end]


def altered(data: bytes) -> Iterator[bytes]:
    """Return the data with each byte altered, but those of its type or version."""
    rng = random.Random(data)
    for at in range(2, len(data)):
        for byte in (0, 1, 127, 128, 255, rng.randrange(256)):
            if byte != data[at]:
                yield data[:at] + bytes([byte]) + data[at + 1 :]


@pytest.mark.parametrize("damage", [cut, altered])
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_records_harm_nothing_else(
    kind: str, damage: Callable[[bytes], Iterator[bytes]]
) -> None:
    for damaged in SOUND[kind]:
        watched = begun(kind)
        key, value = encode(Record(*damaged))
        assert value is not None
        for number, (bad_key, bad_value) in enumerate(
            [(key, each) for each in damage(value)] + [(each, value) for each in damage(key)]
        ):
            watched.now += (0, 1_000)[number % 2]
            watched.take(bad_key, bad_value)
            if number % 7 == 0:
                watched.tell(watched.watch.flush())
                is_shown(watched)
        watched.now += 1_000
        watched.write(*GONE[kind])
        is_shown(watched)
        watched.now += 1_000
        goes_on(watched)
        for story in watched.stories.values():
            assert sentence(json_form.read(json_form.write(story))) == sentence(story)
        watched.news()
        assert watched.watch.outlook.troubles.take() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_is_cut_off_is_counted_and_changes_nothing(kind: str) -> None:
    for damaged in SOUND[kind]:
        watched = begun(kind)
        before = shown(watched)
        key, value = encode(Record(*damaged))
        assert value is not None
        cuts = list(cut(value))
        for each in cuts:
            watched.take(key, each)
        assert watched.watch.unreadable == len(cuts), damaged
        assert shown(watched) == before


@pytest.mark.parametrize(
    "record",
    [
        consumer.current("a", 2, -1),
        consumer.targets(3, {"a": (0, -2)})[0],
        share.current("a", 2, [(TOPIC, -1)])[0],
        share.targets(3, {"a": [(TOPIC, -1)]})[0],
        streams.current("a", 2, [("active", "0", -1)])[0],
        streams.targets(3, {"a": [("warmup", "0", -1)]})[0],
    ],
)
def test_partitions_that_no_topic_can_have_are_damage(record: tuple[Any, Any]) -> None:
    """A negative number would be that of another topic."""
    watched = Watched()
    watched.write(record)
    assert (watched.watch.unreadable, watched.watch.outlook.ctx.groups) == (1, {})


def test_a_damaged_target_is_not_the_end_of_its_group() -> None:
    watched = begun("consumer")
    watched.news()
    key, value = encode(Record(*consumer.targets(3, {"a": (0,)})[0]))
    assert value is not None
    watched.now += 60_000
    watched.take(key, value[:-6])
    watched.write(consumer.epoch(3, 2), *consumer.targets(3, {"b": (2, 3)}))
    assert watched.watch.unreadable == 1
    assert watched.news()[-1].startswith("epoch 2 → 3: its topics have changed")


def test_one_group_of_which_nothing_can_be_concluded_is_named_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = begun("consumer")
    both = ("g", "other")

    def write(*records: tuple[Any, Any], groups: tuple[str, ...] = both) -> list[str]:
        watched.now += 1_000
        for group_id in groups:
            watched.write(*[(of(key, group_id), value) for key, value in records])
        return watched.news()

    write(*SOUND["consumer"], groups=("other",))
    conclude = modern.last_signs

    def fail(outlook: Any, group_id: str, *others: Any) -> Any:
        if group_id == "g":
            raise IndexError("a fault")
        return conclude(outlook, group_id, *others)

    with monkeypatch.context() as patch:
        patch.setattr(modern, "last_signs", fail)
        write(*consumer.gone("b"))
        write(consumer.epoch(3), *consumer.targets(3, {"a": (0, 1, 2)}))
        write(*consumer.gone("a"), consumer.epoch(4))
    found = watched.watch.outlook.troubles
    (trouble,) = found.take()
    assert (trouble.group_id, found.count, found.take()) == ("g", 2, [])
    assert trouble.reason.startswith("IndexError: a fault (test_damaged.py:")
    write(consumer.joined("c"), consumer.epoch(5), *consumer.targets(5, {"c": (3,)}))
    told = write(consumer.joined("d"), consumer.epoch(6), *consumer.targets(6, {"d": (0,)}))
    joined = "epoch 5 → 6: member d (10.0.0.4) joined"
    assert [joined in each for each in told if "5 → 6" in each] == [True, True]


@pytest.mark.parametrize("error", [AssertionError, AttributeError, OverflowError, TypeError])
@pytest.mark.parametrize("part", [1, 3, None])
def test_records_that_the_core_cannot_replay_harm_their_group_only(
    error: type[Exception], part: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They can be read, and yet say what no coordinator writes."""
    watched = begun("consumer")
    replay, failed = Context.replay, list[Record]()

    def fail(ctx: Context, record: Record) -> None:
        if getattr(record.key, "group_id", "") == "g" and (part is None or len(failed) < part):
            failed.append(record)
            raise error("a fault")
        replay(ctx, record)

    def write(*records: tuple[Any, Any], groups: tuple[str, ...] = ("g", "other")) -> list[str]:
        watched.now += 1_000
        for group_id in groups:
            watched.write(*[(of(key, group_id), value) for key, value in records])
        return watched.news()

    write(*SOUND["consumer"], groups=("other",))
    with monkeypatch.context() as patch:
        patch.setattr(Context, "replay", fail)
        told = write(*consumer.gone("b"), consumer.epoch(3), *consumer.targets(3, {"a": (0, 1, 2)}))
    assert any(each.startswith("group other: epoch 2 → 3: member b ") for each in told)
    found = watched.watch.outlook.troubles
    (trouble,) = found.take()
    assert (trouble.group_id, found.count, watched.watch.unreadable) == ("g", len(failed), 0)
    assert trouble.reason.startswith(f"{error.__name__}: a fault (test_damaged.py:")
    is_shown(watched)
    write(consumer.joined("c"), consumer.epoch(4), *consumer.targets(4, {"c": (3,)}))
    told = write(consumer.joined("d"), consumer.epoch(5), *consumer.targets(5, {"d": (0,)}))
    joined = "epoch 4 → 5: member d (10.0.0.4) joined"
    assert [joined in each for each in told if "4 → 5" in each] == [True, True]
    assert found.take() == []


def test_what_cannot_be_prepared_for_a_replay_harms_its_group_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: bytes) -> bytes:
        raise TypeError("a fault")

    watched = begun("streams")
    monkeypatch.setattr(task_records, "of_kafka", fail)
    watched.write(*streams.current("a", 2, [("active", "0", 1)]))
    assert [each.group_id for each in watched.watch.outlook.troubles.take()] == ["g"]
    goes_on(watched)


@pytest.mark.parametrize("time_ms", [-(1 << 62), -1, 0, 1 << 44, (1 << 63) - 1])
@pytest.mark.parametrize("kind", KINDS)
def test_times_that_no_calendar_has_can_be_told(kind: str, time_ms: int) -> None:
    watched = begun(kind)
    watched.now = time_ms
    watched.write(*GONE[kind], *SOUND[kind])
    watched.tell([*watched.watch.flush(), *watched.watch.flush()])
    for story in watched.stories.values():
        for each in (story.started_ms, story.ended_ms):
            assert datetime.fromtimestamp(each / 1_000, UTC).year < 2600
            assert 0 <= each * 1_000_000 < 1 << 64


def test_so_many_groups_are_named() -> None:
    found = troubles.Troubles()
    for number in range(troubles.NAMED_MAX + 5):
        found.note(f"g{number}", ValueError(str(number)))
        found.note(f"g{number}", ValueError("again"))
    assert found.count == 2 * (troubles.NAMED_MAX + 5)
    named = found.take()
    assert len(named) == troubles.NAMED_MAX
    assert named[0] == Trouble("g0", "ValueError: 0")


# --- helpers


def of(key: Any, group_id: str) -> Any:
    """Return the key of the same record of another group."""
    return replace(key, group_id=group_id)


def begun(kind: str) -> Watched:
    """Return a watched cluster with a sound group."""
    watched = Watched()
    watched.watch.outlook.topics.replace([Topic(TOPIC, "t", 4), Topic(U, "u", 4), Topic(V, "v", 4)])
    watched.write(*SOUND[kind])
    return watched


def shown(watched: Watched) -> list[Any]:
    """Return what a page has."""
    outlook = watched.watch.outlook
    return [
        (row, list(group_view.members(outlook, row.group_id)))
        for row in overview.rows(outlook, lambda *_: None)
    ]


def is_shown(watched: Watched) -> None:
    """Ask for all pages."""
    outlook = watched.watch.outlook
    for row, _ in shown(watched):
        list(group_view.units(outlook, row.group_id))


def goes_on(watched: Watched) -> None:
    """A group that comes later has its own topics."""
    for number, (name, topic, partition) in enumerate((("u", U, 0), ("v", V, 1))):
        records = [
            consumer.joined(name, topics=("u", "v")),
            consumer.epoch(2 + number),
            *consumer.targets(2 + number, {name: (partition,)}, topic),
            consumer.current(name, 2 + number, partition, topic=topic),
        ]
        watched.now += 1_000
        watched.write(*[(of(key, "later"), value) for key, value in records])
    found = group_view.members(watched.watch.outlook, "later")
    assert [(each.owned, each.target) for each in found] == [
        (("u-0",), ("u-0",)),
        (("v-1",), ("v-1",)),
    ]
