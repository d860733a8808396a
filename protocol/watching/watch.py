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
from protocol.watching.modern import ModernWatch
from protocol.watching.outlook import SESSION_TIMEOUT_MS, Outlook
from protocol.watching.soundness import CLASSES, require_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from protocol.groups.facts import Fact

UNKNOWN_MAX: Final = 100
"""Unknown types and versions that are counted one by one."""

OTHERS: Final = "others"

TIME_MAX_MS: Final = 1 << 44
"""In the year 2527: a calendar has that time, and 64 bits have its nanoseconds."""

_UNREADABLE: Final = (BadRecord, IndexError, KeyError, ValueError, struct.error)


class ClusterWatch:
    """The groups of a watched cluster; ``shard`` has them, and only replays.

    ``records`` counts what was taken, ``unknown`` what has a type or version that is not known
    here, ``unreadable`` what is damaged. What fails is in ``outlook.troubles``.
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
        time_ms = min(max(time_ms, 0), TIME_MAX_MS)
        try:
            record = decode_for_replay(key or b"", value)
            if self._only is not None and self._only != _group_of(record.key):
                return
            if isinstance(record.key, OffsetCommitKey):
                self._commit(record.key, value)
                return
            require_sound(record.key, key or b"", value)
        except UnknownRecordType as error:
            name = str(error)
            is_known = name in self.unknown or len(self.unknown) < UNKNOWN_MAX
            self.unknown[name if is_known else OTHERS] += 1
        except _UNREADABLE:
            self.unreadable += 1
        else:
            yield from self._take(record, value, time_ms)

    def flush(self) -> Iterator[Fact]:
        """Tell what waits for more records of one write, if none came since the last call."""
        for watch in self._modern:
            yield from watch.flush()

    def _take(self, record: Record, value: bytes | None, time_ms: int) -> Iterator[Fact]:
        """Conclude what a record says, and replay it, whether that fails or not."""
        key: Any = record.key
        group_id = _group_of(key)
        match key:
            case GroupMetadataKey():
                before, after = self._classic.before_replay, _nothing
                key = group_id
            case _:
                before, after = self._table.get(type(key), (_nothing, _nothing))
        yield from self._concluded(group_id, before, key, record.value, time_ms)
        try:
            self._replay(record, value)
        except _UNREADABLE:
            self.unreadable += 1
        except Exception as error:
            self._failed(group_id, error, time_ms)
        else:
            yield from self._concluded(group_id, after, key, record.value, time_ms)

    def _replay(self, record: Record, value: bytes | None) -> None:
        match record.key:
            case ShareGroupStatePartitionMetadataKey():
                self._learn(record.value)
            case StreamsGroupCurrentMemberAssignmentKey() if value is not None:
                record = Record(record.key, task_records.of_kafka(value))
        self.outlook.ctx.replay(record)

    def _concluded(
        self,
        group_id: str,
        conclude: Callable[[Any, Any, int], Iterator[Fact]],
        key: Any,
        value: Any,
        time_ms: int,
    ) -> Iterator[Fact]:
        """Return what is concluded of a group; if it fails, no other group is harmed."""
        try:
            yield from conclude(key, value, time_ms)
        except Exception as error:
            self._failed(group_id, error, time_ms)

    def _failed(self, group_id: str, error: Exception, time_ms: int) -> None:
        """Note that something of a group could not be taken, and begin it again."""
        self.outlook.troubles.note(group_id, error)
        self._classic.start_over(group_id)
        for watch in self._modern:
            watch.start_over(group_id, time_ms)

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


def _nothing(_key: Any, _value: Any, _time_ms: int) -> Iterator[Fact]:
    return iter(())


def _group_of(key: Any) -> str:
    group_id: str = (
        key.group if isinstance(key, OffsetCommitKey | GroupMetadataKey) else key.group_id
    )
    return group_id


_COMMIT_KEY: Final = b"\x00\x01" + b"\x00\x00" * 2 + b"\x00" * 4
"""The key of any offset commit: all have values of the same form."""
