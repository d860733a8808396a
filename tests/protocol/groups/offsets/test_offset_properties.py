"""Whatever happens to offsets, the log alone tells where it led."""

import random

from hypothesis import example, given
from hypothesis import strategies as st

from protocol.config import Configs
from protocol.groups.effects import TopicsDeleted
from protocol.groups.shard import GroupShard
from protocol.groups.topics import Topics
from protocol.records import Record, decode, encode
from tests.protocol.groups.offsets.offset_talk import MINUTE, OffsetTalk

GROUPS = st.sampled_from(["a", "b"])
NAMES = st.sampled_from(["orders", "audit"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), GROUPS, NAMES, st.integers(-1, 4), st.integers(0, 9)),
        st.tuples(st.just("delete"), GROUPS, NAMES, st.integers(-1, 4)),
        st.tuples(st.just("delete group"), GROUPS),
        st.tuples(st.just("delete topic"), NAMES),
        st.tuples(st.just("wait"), st.integers(1, 30)),
    ),
    max_size=30,
)


def take(talk: OffsetTalk, step: tuple[object, ...]) -> None:
    match step:
        case ("commit", str(group), str(topic), int(index), int(offset)):
            talk.commit_offsets(topic, (index, offset, None), group=group)
        case ("delete", str(group), str(topic), int(index)):
            talk.delete_offsets(topic, index, group=group)
        case ("delete group", str(group)):
            talk.delete(group)
        case ("delete topic", str(topic)):
            kept = [one for one in talk.shard.topics if one.name != topic]
            talk.shard.topics = Topics(kept)
            talk.handle(TopicsDeleted([topic]))
        case ("wait", int(minutes)):
            talk.advance(minutes * MINUTE)


def compacted(records: list[Record]) -> list[Record]:
    """Keep the last value of every key, as the log does."""
    last = {record.key: record for record in records}
    return [record for record in last.values() if record.value is not None]


def as_batch(records: list[Record]) -> list[Record]:
    """Keep the last record of every key, in its place, as a turn does that is written at once."""
    batch: dict[object, Record] = {}
    for record in records:
        batch.pop(record.key, None)
        batch[record.key] = record
    return list(batch.values())


def reloaded(records: list[Record]) -> GroupShard:
    shard = GroupShard(Configs(), Topics(), random.Random(2))
    for record in records:
        shard.replay(decode(*_bytes(record)))
    return shard


def _bytes(record: Record) -> tuple[bytes, bytes | None]:
    return encode(record)


@given(STEPS)
def test_offsets_after_a_reload_are_those_before(steps: list[tuple[object, ...]]) -> None:
    talk = OffsetTalk(
        {
            "offsets.retention.minutes": "20",
            "offsets.retention.check.interval.ms": str(5 * MINUTE),
        }
    )
    for step in steps:
        take(talk, step)
    runtime = talk.context
    whole = reloaded(talk.records)._context
    assert whole.offsets == runtime.offsets
    assert whole.groups == runtime.groups
    assert reloaded(compacted(talk.records))._context.offsets == runtime.offsets


@given(STEPS)
@example([("delete group", "a"), ("commit", "a", "orders", 0, 2)])
def test_a_standby_knows_the_same_offsets_and_groups_when_a_turn_is_one_batch(
    steps: list[tuple[object, ...]],
) -> None:
    talk = OffsetTalk()
    for group in ("a", "b"):
        talk.commit_offsets("orders", (0, 1, None), (1, 1, None), group=group)
    before = len(talk.records)
    for step in steps:
        take(talk, step)
    standby = reloaded([*talk.records[:before], *as_batch(talk.records[before:])])._context
    runtime = talk.context
    assert standby.offsets == runtime.offsets
    assert set(runtime.offsets) <= set(standby.groups) <= set(runtime.groups)


@given(STEPS)
def test_no_group_keeps_an_empty_shell_of_offsets(steps: list[tuple[object, ...]]) -> None:
    talk = OffsetTalk()
    for step in steps:
        take(talk, step)
    offsets = talk.context.offsets
    assert all(by_topic and all(by_topic.values()) for by_topic in offsets.values())
    assert set(offsets) <= set(talk.context.groups)
