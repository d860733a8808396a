"""The record types of ``__consumer_offsets`` and ``__share_group_state``, with Kafka's bytes.

Keys and values are declared once, in kio's entity form (``record_types``). A key's bytes begin with
its type (int16, big-endian), a value's with its version (int16). Each of the two topics numbers its
types from 0, so each has a table of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol import record_writers
from protocol.record_types.classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.record_types.consumer import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)
from protocol.record_types.share import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareTopic,
    ShareTopicPartitions,
)
from protocol.record_types.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareStateBatch,
    ShareUpdateKey,
    ShareUpdateValue,
)
from protocol.record_types.streams import (
    CopartitionGroup,
    CurrentTaskIds,
    StreamsEndpoint,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    StreamsKeyValue,
    StreamsSubtopology,
    StreamsTopicInfo,
    TargetTaskIds,
)
from protocol.wire.convert import converter
from protocol.wire.readers import UnreadableError, decoder
from protocol.wire.schema import at_version
from protocol.wire.writers import encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from kio.static.protocol import Entity

__all__ = (
    "RECORD_TYPES",
    "SHARE_STATE_TYPES",
    "TYPE_BYTES",
    "BadRecord",
    "ClassicMemberMetadata",
    "ClassicProtocol",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "CopartitionGroup",
    "CurrentTaskIds",
    "CurrentTopicPartitions",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "Record",
    "RecordType",
    "ShareGroupCurrentMemberAssignmentKey",
    "ShareGroupCurrentMemberAssignmentValue",
    "ShareGroupMemberMetadataKey",
    "ShareGroupMemberMetadataValue",
    "ShareGroupMetadataKey",
    "ShareGroupMetadataValue",
    "ShareGroupStatePartitionMetadataKey",
    "ShareGroupStatePartitionMetadataValue",
    "ShareGroupTargetAssignmentMemberKey",
    "ShareGroupTargetAssignmentMemberValue",
    "ShareGroupTargetAssignmentMetadataKey",
    "ShareGroupTargetAssignmentMetadataValue",
    "ShareSnapshotKey",
    "ShareSnapshotValue",
    "ShareStateBatch",
    "ShareTopic",
    "ShareTopicPartitions",
    "ShareUpdateKey",
    "ShareUpdateValue",
    "StreamsEndpoint",
    "StreamsGroupCurrentMemberAssignmentKey",
    "StreamsGroupCurrentMemberAssignmentValue",
    "StreamsGroupMemberMetadataKey",
    "StreamsGroupMemberMetadataValue",
    "StreamsGroupMetadataKey",
    "StreamsGroupMetadataValue",
    "StreamsGroupTargetAssignmentMemberKey",
    "StreamsGroupTargetAssignmentMemberValue",
    "StreamsGroupTargetAssignmentMetadataKey",
    "StreamsGroupTargetAssignmentMetadataValue",
    "StreamsGroupTopologyKey",
    "StreamsGroupTopologyValue",
    "StreamsKeyValue",
    "StreamsSubtopology",
    "StreamsTopicInfo",
    "TargetTaskIds",
    "TargetTopicPartitions",
    "UnknownRecordType",
    "decode",
    "decode_for_replay",
    "decode_share_state",
    "encode",
    "encode_key",
    "encode_value",
    "unused_types",
)


@dataclass(frozen=True, slots=True)
class Record:
    """A typed log record; a value of None is a tombstone.

    A value may also be its encoded bytes, when they exist already.
    """

    key: Entity
    value: Entity | bytes | None


class BadRecord(Exception):  # noqa: N818 - names the record, as Kafka's errors do
    """Bytes of a known record type that its schema cannot decode."""


class UnknownRecordType(Exception):  # noqa: N818 - Kafka's name
    """A key whose type, or a value whose version, is newer than this code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordType:
    """One row of the table of record types.

    ``written`` is the version that a value is written in; ``newest`` the last that can be read.
    ``write`` encodes a value in that version where kio does not, and ``write_key`` a key.
    ``is_replayed``: a group type has a replay for it; otherwise it is skipped like a record of a
    newer version, and the log keeps it. ``is_kept``: replays get the value's bytes and decode them
    on demand (``unread``, ``groups.assignment_records``).
    """

    number: int
    key: type[Entity]
    value: type[Entity]
    is_replayed: bool
    is_kept: bool
    newest: int = 0
    first_flexible: int = 0
    written: Callable[[Any], int] = lambda _: 0
    write: Callable[[Any], bytes] | None = None
    write_key: Callable[[Any], bytes] | None = None


KEYS_REMEMBERED: Final = 16_384
"""About 300 bytes each."""

TYPE_BYTES: Final = 2
"""The length of a key's type, and of a value's version."""


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """Encode a record as Kafka 4.3.1 does; the value of a tombstone is None."""
    key = encode_key(record.key)  # type: ignore[arg-type]  # every key is frozen
    return key, encode_value(record.key, record.value)


@lru_cache(maxsize=KEYS_REMEMBERED)
def encode_key(key: Entity) -> bytes:
    """Encode a record's key alone; results are cached, since the same keys are written often."""
    prefix, write = _key_writing(type(key))
    return prefix + write(key)


def encode_value(key: Entity, value: Entity | bytes | None) -> bytes | None:
    """Encode the value that belongs to ``key``; None and bytes are returned unchanged."""
    if value is None or isinstance(value, bytes):
        return value
    kind = type(key)
    prefix, write = _value_writing(kind, _BY_KEY[kind].written(value))
    return prefix + write(value)


def decode(key: bytes, value: bytes | None) -> Record:
    """Decode a record of groups of any version that Kafka has written.

    The caller should skip an UnknownRecordType, as Kafka does after a downgrade, but not BadRecord.
    """
    return _decode(_BY_NUMBER, key, value)


def decode_share_state(key: bytes, value: bytes | None) -> Record:
    """Decode a record of share state, as :func:`decode` does one of groups."""
    return _decode(_SHARE_STATE_BY_NUMBER, key, value)


def _decode(rows: Mapping[int, RecordType], key: bytes, value: bytes | None) -> Record:
    number = _number(key)
    row = rows.get(number)
    if row is None:
        raise UnknownRecordType(f"record type {number} is not known")
    typed_key = _read(decoder(row.key), key)
    if value is None:
        return Record(typed_key, None)
    version = _number(value)
    if not 0 <= version <= row.newest:
        raise UnknownRecordType(f"{row.value.__name__} version {version} is not known")
    read, convert = _reading(row, version)
    return Record(typed_key, convert(_read(read, value)))


def decode_for_replay(key: bytes, value: bytes | None) -> Record:
    """Decode a record for replay: many values stay bytes (:attr:`RecordType.is_kept`)."""
    row = _BY_NUMBER.get(_number(key))
    if value is None or row is None or not row.is_kept or not 0 <= _number(value) <= row.newest:
        return decode(key, value)
    return Record(_read(decoder(row.key), key), value)


def unused_types(used: Container[type[Entity]]) -> frozenset[bytes]:
    """Return the first bytes of the keys of all known record types that are not in ``used``."""
    return frozenset(row.number.to_bytes(TYPE_BYTES, "big") for row in _ROWS if row.key not in used)


def _number(data: bytes) -> int:
    if len(data) < TYPE_BYTES:
        raise BadRecord("a record's key or value is too short to hold its type")
    return int.from_bytes(data[:TYPE_BYTES], "big", signed=True)


def _read(read: Callable[[bytes, int], Any], data: bytes) -> Any:
    try:
        return read(data, 2)
    except UnreadableError as error:
        raise BadRecord(str(error)) from None


@cache
def _key_writing(key: type[Entity]) -> tuple[bytes, Callable[[Any], bytes]]:
    row = _BY_KEY[key]
    return row.number.to_bytes(2, "big"), row.write_key or encoder(key)


@cache
def _value_writing(key: type[Entity], version: int) -> tuple[bytes, Callable[[Any], bytes]]:
    row = _BY_KEY[key]
    return version.to_bytes(2, "big"), row.write or encoder(_shape(row, version))


@cache
def _reading(
    row: RecordType, version: int
) -> tuple[Callable[[bytes, int], Any], Callable[[Any], Any]]:
    shape = _shape(row, version)
    return decoder(shape), converter(shape, row.value)


def _shape(row: RecordType, version: int) -> type[Entity]:
    """Return the class of one version of a value; most values have only one version."""
    if row.newest == 0:
        return row.value
    return at_version(row.value, version, flexible=version >= row.first_flexible)


def _offset_commit_version(value: OffsetCommitValue) -> int:
    """Return version 1, the only one with an expiry time, if there is one; else the newest."""
    return 4 if value.expire_timestamp == -1 else 1


_CLASSIC = (
    RecordType(
        number=1,
        key=OffsetCommitKey,
        value=OffsetCommitValue,
        is_replayed=True,
        is_kept=True,
        newest=4,
        first_flexible=4,
        written=_offset_commit_version,
        write=record_writers.offset_commit,
        write_key=record_writers.offset_commit_key,
    ),
    RecordType(
        number=2,
        key=GroupMetadataKey,
        value=GroupMetadataValue,
        is_replayed=True,
        is_kept=False,
        newest=4,
        first_flexible=4,
        written=lambda _: 3,
        write=record_writers.group_metadata,
    ),
)


def _replayed(
    number: int,
    key: type[Entity],
    value: type[Entity],
    *,
    is_kept: bool = False,
    write: Callable[[Any], bytes] | None = None,
) -> RecordType:
    return RecordType(
        number=number, key=key, value=value, is_replayed=True, is_kept=is_kept, write=write
    )


def _skipped(number: int, key: type[Entity], value: type[Entity]) -> RecordType:
    return RecordType(number=number, key=key, value=value, is_replayed=False, is_kept=False)


_CONSUMER = (
    _replayed(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    _replayed(4, ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    _replayed(
        5,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupMemberMetadataValue,
        write=record_writers.member_metadata,
    ),
    _replayed(
        6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue
    ),
    _replayed(
        7,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMemberValue,
        is_kept=True,
    ),
    _replayed(
        8,
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupCurrentMemberAssignmentValue,
        is_kept=True,
    ),
    _replayed(16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)
_SHARE = (
    _replayed(
        10,
        ShareGroupMemberMetadataKey,
        ShareGroupMemberMetadataValue,
        write=record_writers.share_member_metadata,
    ),
    _replayed(11, ShareGroupMetadataKey, ShareGroupMetadataValue),
    _replayed(12, ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    _replayed(
        13, ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue, is_kept=True
    ),
    _replayed(
        14,
        ShareGroupCurrentMemberAssignmentKey,
        ShareGroupCurrentMemberAssignmentValue,
        is_kept=True,
    ),
    _replayed(
        15,
        ShareGroupStatePartitionMetadataKey,
        ShareGroupStatePartitionMetadataValue,
        write=record_writers.share_partitions,
    ),
)
_SHARE_STATE = (
    RecordType(
        number=0,
        key=ShareSnapshotKey,
        value=ShareSnapshotValue,
        is_replayed=True,
        is_kept=False,
        write=record_writers.share_snapshot,
        write_key=record_writers.share_snapshot_key,
    ),
    _replayed(1, ShareUpdateKey, ShareUpdateValue),
)

_STREAMS = (
    _replayed(17, StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    _replayed(19, StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    _replayed(
        20, StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue
    ),
    _replayed(
        21,
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupTargetAssignmentMemberValue,
        is_kept=True,
    ),
    _replayed(
        22,
        StreamsGroupCurrentMemberAssignmentKey,
        StreamsGroupCurrentMemberAssignmentValue,
        is_kept=True,
    ),
    _replayed(23, StreamsGroupTopologyKey, StreamsGroupTopologyValue),
)
_ROWS = (*_CLASSIC, *_CONSUMER, *_SHARE, *_STREAMS)
RECORD_TYPES: Final[Mapping[type, RecordType]] = MappingProxyType({row.key: row for row in _ROWS})
"""The record types of groups, in ``__consumer_offsets``."""

SHARE_STATE_TYPES: Final[Mapping[type, RecordType]] = MappingProxyType(
    {row.key: row for row in _SHARE_STATE}
)
"""The record types of share state, in ``__share_group_state``."""

_BY_KEY: Final[Mapping[type, RecordType]] = MappingProxyType({**RECORD_TYPES, **SHARE_STATE_TYPES})
_BY_NUMBER: Final[Mapping[int, RecordType]] = MappingProxyType({row.number: row for row in _ROWS})
_SHARE_STATE_BY_NUMBER: Final[Mapping[int, RecordType]] = MappingProxyType(
    {row.number: row for row in _SHARE_STATE}
)
