"""Kafka's record batches (format version 2), as in segments and in Produce and Fetch.

Batches may be compressed with gzip or not at all; other codecs are refused by name.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import IO, TYPE_CHECKING, Final

from crc32c import crc32c
from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_batch
from kio.serial.errors import BufferUnderflow
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

BATCH_BYTES_MAX: Final = 100 << 20
"""The most bytes of a batch, compressed or not: Kafka's longest request."""

NO_PRODUCER: Final = -1

_LENGTH: Final = Struct(">qi")
"""A batch begins with its first offset and the number of bytes that follow."""

_HEADER: Final = Struct(">qiibIh")
"""First offset, length, leader epoch, magic, checksum, attributes."""

_CHECKED_FROM: Final = 21
_RECORDS_FROM: Final = 61
_LENGTH_COUNTS_FROM: Final = 12

_CODEC: Final = 0x07
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_GZIP: Final = 1
_GZIP_WINDOW: Final = 31
_OTHER_CODECS: Final[Mapping[int, str]] = {2: "snappy", 3: "lz4", 4: "zstd"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class BadBatchError(Exception):
    """The bytes are not a batch that can be read; the message is a clause that says why."""


class UnfinishedBatchError(BadBatchError):
    """The bytes end within a batch: its writer was stopped, or the file was cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """A record in a log; a ``value`` of None is a tombstone."""

    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatch:
    """A batch in a log. ``end_offset`` is exclusive; compaction may have left fewer records.

    The records of a transactional batch count once a control batch of the same ``producer_id``
    commits them.
    """

    base_offset: int
    end_offset: int
    leader_epoch: int
    producer_id: int
    is_transactional: bool
    is_control: bool
    records: tuple[LogRecord, ...]


def encode(
    records: Sequence[tuple[bytes, bytes | None]],
    *,
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
) -> bytes:
    """Return one uncompressed batch of at least one record, with consecutive offsets."""
    at = TZAwareMicros.parse(_EPOCH + timedelta(milliseconds=timestamp_ms))
    batch = NewRecordBatch(
        producer_id=i64(NO_PRODUCER),
        producer_epoch=i16(-1),
        partition_leader_epoch=i32(leader_epoch),
        base_sequence=i32(-1),
        attributes=i16(0),
        records=tuple(
            Record(
                attributes=i8(0),
                timestamp=at,
                offset=i64(base_offset + index),
                key=key,
                value=value,
                headers=(),
            )
            for index, (key, value) in enumerate(records)
        ),
    )
    with io.BytesIO() as buffer:
        write_batch(buffer, batch)
        return buffer.getvalue()


def read_batches(file: IO[bytes]) -> Iterator[LogBatch]:
    """Iterate over the batches from the file's position to its end.

    Raises :class:`BadBatchError`, and :class:`UnfinishedBatchError` if the last one is cut off.
    """
    while start := file.read(_LENGTH.size):
        if len(start) < _LENGTH.size:
            raise UnfinishedBatchError("it ends within a batch")
        _, length = _LENGTH.unpack(start)
        if not _RECORDS_FROM - _LENGTH_COUNTS_FROM <= length <= BATCH_BYTES_MAX:
            raise BadBatchError(f"a batch of {length} bytes is not possible")
        rest = file.read(length)
        if len(rest) < length:
            raise UnfinishedBatchError("it ends within a batch")
        yield _decoded(start + rest)


def _decoded(data: bytes) -> LogBatch:
    """Decode one batch. Raises :class:`BadBatchError`."""
    _, _, _, magic, checksum, attributes = _HEADER.unpack_from(data)
    if magic != 2:
        raise BadBatchError(f"its messages have the old format {magic}, not 2")
    if crc32c(memoryview(data)[_CHECKED_FROM:]) != checksum:
        raise BadBatchError("a batch does not match its checksum")
    try:
        batch, _ = read_batch(_uncompressed(data, attributes & _CODEC), 0)
    except (ValueError, IndexError, OverflowError, BufferUnderflow, zlib.error) as error:
        raise BadBatchError(f"a batch cannot be read ({error})") from error
    return LogBatch(
        base_offset=batch.base_offset,
        end_offset=batch.base_offset + batch.last_offset_delta + 1,
        leader_epoch=batch.partition_leader_epoch,
        producer_id=batch.producer_id,
        is_transactional=bool(attributes & _TRANSACTIONAL),
        is_control=bool(attributes & _CONTROL),
        records=tuple(
            LogRecord(offset=record.offset, key=record.key, value=record.value)
            for record in batch.records
        ),
    )


def _uncompressed(data: bytes, codec: int) -> bytes:
    """Return a batch with its records uncompressed, and a length and checksum that match."""
    if codec == 0:
        return data
    if codec != _GZIP:
        name = _OTHER_CODECS.get(codec, f"the unknown codec {codec}")
        raise BadBatchError(f"a batch is compressed with {name}, and only gzip can be read")
    unzip = zlib.decompressobj(_GZIP_WINDOW)
    records = unzip.decompress(data[_RECORDS_FROM:], BATCH_BYTES_MAX)
    if unzip.unconsumed_tail or not unzip.eof:
        raise BadBatchError("a compressed batch is cut off or too large")
    checked = data[_CHECKED_FROM:_RECORDS_FROM] + records
    base_offset, _, leader_epoch, magic, _, attributes = _HEADER.unpack_from(data)
    length = _CHECKED_FROM - _LENGTH_COUNTS_FROM + len(checked)
    start = _HEADER.pack(base_offset, length, leader_epoch, magic, crc32c(checked), attributes)
    return start[:_CHECKED_FROM] + checked
