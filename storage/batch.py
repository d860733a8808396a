"""The unit of the log: a batch of records, and its envelope on disk and between peers.

An envelope is a CRC32C of the rest (4 bytes, big-endian) followed by one msgpack array. Keys and
values inside are Kafka's own record bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgpack  # type: ignore[import-untyped]  # no stubs are published for it
from crc32c import crc32c

RawRecord: TypeAlias = tuple[bytes, bytes | None]
"""A record's key and value bytes; a value of None is a tombstone."""


class ChecksumError(Exception):
    """An envelope is not what was written."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records with consecutive offsets, appended whole by the leader of ``leader_epoch``.

    A ``control`` batch speaks about the log itself (LeaderChange) and is never replayed.
    """

    base_offset: int
    leader_epoch: int
    timestamp_ms: int
    records: tuple[RawRecord, ...]
    control: bool = False

    @property
    def end_offset(self) -> int:
        """The offset of the record after the last one of this batch."""
        return self.base_offset + len(self.records)


def pack(batch: Batch) -> bytes:
    """Return the batch's envelope."""
    body: bytes = msgpack.packb(
        (
            batch.base_offset,
            batch.leader_epoch,
            batch.timestamp_ms,
            batch.control,
            batch.records,
        ),
        use_bin_type=True,
    )
    return crc32c(body).to_bytes(4, "big") + body


def unpack(envelope: bytes) -> Batch:
    """Read an envelope; raises :class:`ChecksumError` when it was damaged."""
    body = memoryview(envelope)[4:]
    if crc32c(body) != int.from_bytes(envelope[:4], "big") or not body:
        raise ChecksumError
    base_offset, leader_epoch, timestamp_ms, control, records = msgpack.unpackb(
        body, use_list=False, raw=False, strict_map_key=True
    )
    return Batch(base_offset, leader_epoch, timestamp_ms, records, control)
