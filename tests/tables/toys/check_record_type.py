"""Run in a copy of the project in which docs/how-to/add-a-record-type.md was followed."""

import random

from protocol.config import Configs
from protocol.groups.shard import GroupShard
from protocol.groups.topics import Topics
from protocol.records import (
    ConsumerGroupEpochFloorKey,
    ConsumerGroupEpochFloorValue,
    Record,
    decode,
    encode,
)

RECORD = Record(ConsumerGroupEpochFloorKey("g"), ConsumerGroupEpochFloorValue(epoch=7))


def test_it_is_written_and_read() -> None:
    key, value = encode(RECORD)
    assert key == b"\0\x5a\0\1g"
    assert decode(key, value) == RECORD
    assert decode(key, None) == Record(RECORD.key, None)


def test_it_changes_its_group() -> None:
    shard = GroupShard(Configs(), Topics(), random.Random(1))
    assert shard.replay_rows([encode(RECORD)]) == (1, 0)
    assert shard._context.groups["g"].epoch == 7
