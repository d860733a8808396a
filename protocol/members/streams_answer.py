"""The fields of a StreamsGroupHeartbeat answer that a member reads, without decoding the rest."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from protocol.client.frames import AFTER_ERROR, INT32, error_in
from protocol.members.streams_requests import OwnedTasks
from protocol.wire import compact
from protocol.wire.errors import ErrorCode
from protocol.wire.streams_messages import StreamsStatus

_EPOCH_AND_TIMES: Final = struct.Struct(">iiii")
"""Epoch, heartbeat interval, acceptable recovery lag, and the interval of task offsets."""


class OwnedRows(NamedTuple):
    """A member's tasks by role: subtopology and index."""

    active: tuple[tuple[str, int], ...]
    standby: tuple[tuple[str, int], ...]
    warmup: tuple[tuple[str, int], ...]


class StreamsAnswer(NamedTuple):
    """An answer; ``tasks`` are the three arrays as sent, None: nothing new."""

    error_code: ErrorCode
    member_epoch: int
    interval_ms: int
    status: tuple[StreamsStatus, ...] | None
    tasks: bytes | None
    endpoint_information_epoch: int


def read_streams(frame: bytes) -> StreamsAnswer:
    """Read an answer without its length; raises IndexError, ValueError or ``struct.error``."""
    error = error_in(frame)
    at = AFTER_ERROR
    for _ in range(2):  # error message, member id
        size, at = compact.read_uvarint(frame, at)
        at += max(size - 1, 0)
    epoch, interval_ms, _, _ = _EPOCH_AND_TIMES.unpack_from(frame, at)
    status, at = _read_status(frame, at + _EPOCH_AND_TIMES.size)
    tasks = None
    if frame[at]:
        start = at
        for _ in OwnedTasks._fields:
            _, at = _read_tasks(frame, at)
        tasks = frame[start:at]
    else:
        at += len(OwnedTasks._fields)
    code = ErrorCode(error) if error else ErrorCode.none
    return StreamsAnswer(code, epoch, interval_ms, status, tasks, INT32.unpack_from(frame, at)[0])


def _read_status(frame: bytes, at: int) -> tuple[tuple[StreamsStatus, ...] | None, int]:
    size, at = compact.read_uvarint(frame, at)
    rows = []
    for _ in range(size - 1):
        detail, after = compact.read_string(frame, at + 1)
        rows.append(StreamsStatus(status_code=frame[at], status_detail=detail))
        at = after + 1  # and no tagged fields
    return (tuple(rows) if size else None), at


def _read_tasks(data: bytes, at: int) -> tuple[list[tuple[str, tuple[int, ...]]], int]:
    """Decode an array of tasks, by subtopology; return where the next field is, too."""
    size, at = compact.read_uvarint(data, at)
    rows = []
    for _ in range(size - 1):
        name, at = compact.read_string(data, at)
        count, at = compact.read_uvarint(data, at)
        partitions = struct.unpack_from(f">{max(count - 1, 0)}i", data, at)
        at += 4 * len(partitions) + 1  # and no tagged fields
        rows.append((name, partitions))
    return rows, at


def tasks_in(owned: bytes) -> OwnedRows:
    """Decode the tasks that a member keeps as bytes: pairs of subtopology and index, by role."""
    roles, at = [], 0
    for _ in OwnedTasks._fields:
        rows, at = _read_tasks(owned, at)
        roles.append(tuple((name, index) for name, partitions in rows for index in partitions))
    return OwnedRows(*roles)
