"""The unit of the log: a batch of records, and its envelope on disk and between peers.

An envelope is a CRC32C of the rest (4 bytes, big-endian) followed by one msgpack array. The keys
and values inside are Kafka's own record bytes. A batch caches its envelope: a leader packs it once
for its disk and all its peers, and a follower writes exactly the bytes that it received.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import msgpack
from crc32c import crc32c

RawRecord: TypeAlias = tuple[bytes, bytes | None]
"""A record's key and value bytes; a value of None is a tombstone."""


class ChecksumError(Exception):
    """An envelope is not what was written."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records with consecutive offsets, appended whole by the leader of ``leader_epoch``.

    A ``control`` batch is about the log itself (LeaderChange) and is never replayed.
    """

    base_offset: int
    leader_epoch: int
    timestamp_ms: int
    records: tuple[RawRecord, ...]
    control: bool = False
    envelope: bytes | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def end_offset(self) -> int:
        """The offset of the record after the last one of this batch."""
        return self.base_offset + len(self.records)


def pack(batch: Batch) -> bytes:
    """Return the batch's envelope; it is built once."""
    if batch.envelope is not None:
        return batch.envelope
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
    return _remember(batch, crc32c(body).to_bytes(4, "big") + body)


def unpack(envelope: bytes) -> Batch:
    """Decode an envelope; raises :class:`ChecksumError` when it is damaged."""
    body = memoryview(envelope)[4:]
    if crc32c(body) != int.from_bytes(envelope[:4], "big") or not body:
        raise ChecksumError
    base_offset, leader_epoch, timestamp_ms, control, records = msgpack.unpackb(
        body, use_list=False, raw=False, strict_map_key=True
    )
    batch = Batch(base_offset, leader_epoch, timestamp_ms, records, control)
    _remember(batch, envelope)
    return batch


def _remember(batch: Batch, envelope: bytes) -> bytes:
    """Cache an envelope on its frozen batch: it is derived from it and never differs."""
    object.__setattr__(batch, "envelope", envelope)
    return envelope
