"""A watched cluster: takes the records of its ``__consumer_offsets``, returns facts.

The groups are those of the core, replayed from the records as a standby does. What a record changes
is found by comparing it with the group just before its replay.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from protocol.config import Configs
from protocol.groups.shard import GroupShard
from protocol.groups.streams import task_records
from protocol.groups.topics import Topics
from protocol.records import (
    BadRecord,
    GroupMetadataKey,
    OffsetCommitKey,
    Record,
    ShareGroupStatePartitionMetadataKey,
    StreamsGroupCurrentMemberAssignmentKey,
    UnknownRecordType,
    decode,
    decode_for_replay,
)
from protocol.watching.classic import ClassicWatch
from protocol.watching.committed import Committed
from protocol.watching.modern import CLASSES, ModernWatch
from protocol.watching.outlook import SESSION_TIMEOUT_MS, Outlook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.groups.facts import Fact

UNKNOWN_MAX: Final = 100
"""Unknown types and versions that are counted one by one."""

OTHERS: Final = "others"
_UNREADABLE: Final = (BadRecord, IndexError, KeyError, ValueError, struct.error)


class ClusterWatch:
    """The groups of a watched cluster; ``shard`` has them, and only replays.

    ``records`` counts what was taken, ``unknown`` what has a type or version that is not known
    here, ``unreadable`` what is damaged.
    """

    def __init__(
        self, session_timeout_ms: int = SESSION_TIMEOUT_MS, group_id: str | None = None
    ) -> None:
        """Take the records of one group, or of all."""
        self.shard = GroupShard(Configs(), Topics(), random.Random(0))
        self.outlook = Outlook(ctx=self.shard._context, session_timeout_ms=session_timeout_ms)
        self._only = group_id
        self.records = 0
        self.unreadable = 0
        self.unknown: Counter[str] = Counter()
        self._classic = ClassicWatch(self.outlook)
        self._modern = tuple(ModernWatch(self.outlook, each) for each in CLASSES)
        self._table: dict[type, Any] = {}
        for watch in self._modern:
            self._table.update(watch.table())

    def take(self, key: bytes | None, value: bytes | None, time_ms: int) -> Iterator[Fact]:
        """Take the next record of its partition, written at ``time_ms`` (Unix ms)."""
        self.records += 1
        try:
            record = decode_for_replay(key or b"", value)
            yield from self._take(record, value, time_ms)
        except UnknownRecordType as error:
            name = str(error)
            is_known = name in self.unknown or len(self.unknown) < UNKNOWN_MAX
            self.unknown[name if is_known else OTHERS] += 1
        except _UNREADABLE:
            self.unreadable += 1

    def flush(self) -> Iterator[Fact]:
        """Tell what waits for more records of one write, if none came since the last call."""
        for watch in self._modern:
            yield from watch.flush()

    def _take(self, record: Record, value: bytes | None, time_ms: int) -> Iterator[Fact]:
        key: Any = record.key
        ctx = self.outlook.ctx
        if self._only is not None and self._only != _group_of(key):
            return
        match key:
            case OffsetCommitKey():
                self._commit(key, value)
                return
            case GroupMetadataKey():
                generation: Any = record.value
                yield from self._classic.before_replay(key.group, generation, time_ms)
                ctx.replay(record)
                return
            case ShareGroupStatePartitionMetadataKey():
                self._learn(record.value)
            case StreamsGroupCurrentMemberAssignmentKey() if value is not None:
                record = Record(key, task_records.of_kafka(value))
        before, after = self._table.get(type(key), (None, None))
        if before is not None:
            yield from before(key, record.value, time_ms)
        ctx.replay(record)
        if after is not None:
            yield from after(key, record.value, time_ms)

    def _commit(self, key: OffsetCommitKey, value: bytes | None) -> None:
        committed = self.outlook.committed
        if value is None:
            committed.remove(key.group, key.topic, key.partition)
            return
        found: Any = decode(_COMMIT_KEY, value).value
        self.outlook.topics.learn(found.topic_id, key.topic)
        committed.put(
            key.group, key.topic, key.partition, Committed(found.offset, found.commit_timestamp)
        )

    def _learn(self, value: Any) -> None:
        for each in (
            () if value is None else (*value.initializing_topics, *value.initialized_topics)
        ):
            self.outlook.topics.learn(each.topic_id, each.topic_name)


def _group_of(key: Any) -> str:
    group_id: str = (
        key.group if isinstance(key, OffsetCommitKey | GroupMetadataKey) else key.group_id
    )
    return group_id


_COMMIT_KEY: Final = b"\x00\x01" + b"\x00\x00" * 2 + b"\x00" * 4
"""The key of any offset commit: all have values of the same form."""
