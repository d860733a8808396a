"""The logs that a Kafka 4.3.1 wrote for groups of every type, as a watch reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kio.records.readers import read_batch
from kio.serial.readers import read_signed_varint, read_signed_varlong

from protocol.stories.sentence import sentence
from protocol.stories.teller import StoryTeller
from protocol.watching import group_view, overview
from protocol.watching.watch import ClusterWatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.groups.facts import Fact

LOGS = Path(__file__).parents[1] / "backup" / "kafka-4.3.1"
CODEC, CONTROL = 0x07, 0x20
RECORDS_FROM = 61
"""Where the records of a batch begin, after its header."""

ATTRIBUTES_BYTES = 1

SENTENCES = [
    "group a-classic: generation 0 → 1: member static-1 (127.0.0.1) joined (inferred: it and 1 more"
    " are new in generation 1); 4 partitions newly assigned",
    "group a-consumer: epoch 1 → 2: member static-consumer-member (127.0.0.1) joined; 4 partitions"
    " newly assigned",
    "group a-share: epoch 1 → 2: member rollcall-tests (127.0.0.1) joined; 0 partitions moved",
    "group a-share: epoch 2 → 3: more of its partitions may be assigned; 4 partitions newly"
    " assigned",
    "group a-streams: epoch 1 → 2: member rollcall-tests (127.0.0.1) joined; 0 tasks moved",
    "group a-streams: epoch 2 → 3: all topics of its topology exist now; waited 0.6 s until the new"
    " target was written; 8 tasks newly assigned",
]


def records(data: bytes) -> Iterator[tuple[bytes | None, bytes | None, int]]:
    """Return the records of a segment, each with its time in milliseconds."""
    at = 0
    while at < len(data):
        batch, size = read_batch(data, at)
        assert batch.attributes & CODEC == 0, "the times in a compressed batch are not read"
        times = timestamp_deltas(data, at + RECORDS_FROM, len(batch.records))
        at += size
        for record, delta_ms in zip(batch.records, times, strict=True):
            if not batch.attributes & CONTROL:
                yield record.key, record.value, batch.base_timestamp + delta_ms


def timestamp_deltas(data: bytes, at: int, count: int) -> list[int]:
    """Return the timestamp deltas of so many records: kio's own records have whole seconds."""
    deltas = []
    for _ in range(count):
        length, size = read_signed_varint(data, at)
        at += size
        deltas.append(read_signed_varlong(data, at + ATTRIBUTES_BYTES)[0])
        at += length
    return deltas


def concluded(watch: ClusterWatch) -> Iterator[Fact]:
    """Let a watch read all logs; return what it concludes."""
    for path in sorted(LOGS.glob("__consumer_offsets-*/*.log")):
        for record in records(path.read_bytes()):
            yield from watch.take(*record)


def test_groups_of_every_type() -> None:
    watch, teller, told = ClusterWatch(), StoryTeller(0), {}
    for fact in concluded(watch):
        told |= {story.key: story for story in teller.tell(fact)}
    assert (watch.unreadable, sum(watch.unknown.values())) == (0, 0)
    rows = {row.group_id: row for row in overview.rows(watch.outlook, lambda *_: None)}
    assert {name: (row.group_type, row.state, row.members) for name, row in rows.items()} == {
        "a-classic": ("classic", "Stable", 2),
        "a-consumer": ("consumer", "Stable", 1),
        "a-share": ("share", "Stable", 1),
        "a-simple": ("simple", "Empty", 0),
        "a-streams": ("streams", "Stable", 1),
    }
    owned = {name: [*group_view.members(watch.outlook, name)] for name in rows}
    assert [len(each.owned) for each in owned["a-classic"]] == [2, 2]
    tasks = tuple(f"{subtopology}_{n}" for subtopology in range(2) for n in range(4))
    assert [each.owned for each in owned["a-streams"]] == [tasks]
    assert sorted(map(sentence, told.values())) == SENTENCES
