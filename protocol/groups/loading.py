"""Replays the rows of a log, nearly all of them committed offsets, as fast as Python can."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from protocol.records import (
    TYPE_BYTES,
    BadRecord,
    OffsetCommitKey,
    UnknownRecordType,
    decode_for_replay,
)
from protocol.unread import PARTITION, take_offset_commits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.context import Context
    from protocol.records import Record
    from protocol.unread import Row


def replay_rows(ctx: Context, rows: Iterable[Row]) -> tuple[int, int]:
    """Replay encoded records; return how many there were and how many were skipped.

    Records of unknown types, and of types that have no replay here, are skipped without decoding: a
    newer version wrote them, and the log keeps them for it. A group's first offset in a topic is
    replayed like every record; the offsets after it are put directly into the map that it created.
    Raises :class:`protocol.records.BadRecord`.
    """
    left = iter(rows)
    row = next(left, None)
    count = skipped = 0
    unused = ctx.unused_record_types
    while row is not None:
        key, value = row
        count += 1
        row = None
        try:
            if key[:TYPE_BYTES] in unused:
                raise UnknownRecordType("nothing replays it")
            record = decode_for_replay(key, value)
            _replay(ctx, record)
        except UnknownRecordType:
            skipped += 1  # written by a newer version: Kafka skips it too
        else:
            if isinstance(record.key, OffsetCommitKey) and value is not None:
                place = ctx.offsets[record.key.group][record.key.topic]
                taken, row = take_offset_commits(left, key[: -PARTITION.size], place)
                count += taken
        if row is None:
            row = next(left, None)
    return count, skipped


def _replay(ctx: Context, record: Record) -> None:
    try:
        ctx.replay(record)
    except (IndexError, struct.error) as error:
        raise BadRecord(f"cannot read {type(record.key).__name__}'s value: {error}") from error
