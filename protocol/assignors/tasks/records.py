"""Target assignments of streams groups as the bytes of their records, from and to arrays.

A ``StreamsGroupTargetAssignmentMemberValue`` has one array of tasks for each role: active, standby,
warm-up. No assignor gives warm-up tasks yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.assignors.kernels import kernel, writable
from protocol.assignors.spec import NOBODY, Int32s
from protocol.wire.compact import read_uvarint, string

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from protocol.assignors.tasks.spec import TaskAssignment

Names: TypeAlias = tuple[NDArray[np.uint8], Int32s]
"""The subtopologies' ids as compact strings, one after the other, and where each begins."""

ROLES: Final = 3
_VERSION_BYTES: Final = 2


def encode_targets(
    assignment: TaskAssignment, subtopology_ids: Sequence[str], task_starts: Int32s, members: int
) -> tuple[bytes, NDArray[np.int64]]:
    """Encode the targets of all members: that of member ``i`` is ``buffer[ends[i]:ends[i + 1]]``.

    Subtopologies are in the order of their ids, the tasks of each ascending.
    """
    tasks = len(assignment.active)
    counts = np.diff(assignment.standby_starts)
    member = np.concatenate([assignment.active, assignment.standbys])
    role = np.repeat(np.array([0, 1], np.int32), [tasks, len(assignment.standbys)])
    task = np.concatenate([np.arange(tasks), np.repeat(np.arange(tasks), counts)])
    order = np.lexsort((task, role, member))
    order = order[member[order] != NOBODY]
    subtopology = np.searchsorted(task_starts, task, side="right") - 1
    rows = np.empty((len(order), 3), np.int32)
    rows[:, 0] = role[order]
    rows[:, 1] = subtopology[order]
    rows[:, 2] = (task - task_starts[subtopology])[order] if tasks else 0
    first = np.searchsorted(member[order], np.arange(members + 1)).astype(np.int32)
    names = [string(each) for each in subtopology_ids]
    name_starts = np.cumsum([0, *map(len, names)], dtype=np.int32)
    laid = np.frombuffer(bytearray(b"".join(names)), np.uint8), name_starts
    sizes = _write(laid, rows, first, np.empty(0, np.uint8))
    buffer = np.empty(int(sizes[-1]), np.uint8)
    ends = _write(laid, rows, first, buffer)
    return buffer.tobytes(), ends


def decode_targets(
    targets: Iterable[tuple[int, bytes]],
    subtopologies: Mapping[str, int],
    task_starts: Int32s,
) -> tuple[Int32s, Int32s, Int32s]:
    """Return the member with each active task, and those with standbys of each task (CSR).

    ``targets`` are numbers of members and their bytes. Tasks that do not exist are left out.
    """
    starts = writable(task_starts)
    active = np.full(int(starts[-1]), NOBODY, np.int32)
    tasks: list[NDArray[np.int64]] = []
    members: list[int] = []
    for member, data in targets:
        at = _VERSION_BYTES
        for role in range(ROLES):
            count, at = read_uvarint(data, at)
            for _ in range(count - 1):
                name, indexes, at = _read_task_ids(data, at)
                number = subtopologies.get(name)
                if number is None:
                    continue
                size = starts[number + 1] - starts[number]
                found = starts[number] + indexes[(indexes >= 0) & (indexes < size)]
                if role == 0:
                    active[found] = member
                else:
                    tasks.append(found)
                    members.append(member)
    if not tasks:
        return active, np.zeros(len(active) + 1, np.int32), np.zeros(0, np.int32)
    task = np.concatenate(tasks)
    holder = np.repeat(np.array(members, np.int32), [len(each) for each in tasks])
    order = np.lexsort((holder, task))
    standby_starts = np.searchsorted(task[order], np.arange(len(active) + 1)).astype(np.int32)
    return active, standby_starts, holder[order]


def _read_task_ids(data: bytes, at: int) -> tuple[str, NDArray[np.int64], int]:
    """Decode a subtopology's id and partitions; a value of these records has no other fields."""
    size, at = read_uvarint(data, at)
    end = at + size - 1
    name = data[at:end].decode()
    count, at = read_uvarint(data, end)
    indexes = np.frombuffer(data, ">i4", max(count - 1, 0), at).astype(np.int64)
    at += 4 * len(indexes)
    tags, at = read_uvarint(data, at)
    for _ in range(tags):
        _, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        at += size
    return name, indexes, at


@kernel
def _put_varint(number: int, buffer: NDArray[np.uint8], at: int) -> int:
    """Encode a number at a place; an empty buffer only moves the place."""
    while number >= 128:
        if len(buffer):
            buffer[at] = (number & 127) | 128
        number >>= 7
        at += 1
    if len(buffer):
        buffer[at] = number
    return at + 1


@kernel
def _put_rows(rows: Int32s, buffer: NDArray[np.uint8], at: int) -> int:
    """Encode the partitions of one subtopology, and no tagged fields."""
    if len(buffer):
        for row in range(len(rows)):
            for shift in range(4):
                buffer[at + 4 * row + shift] = (rows[row, 2] >> (24 - 8 * shift)) & 255
        buffer[at + 4 * len(rows)] = 0
    return at + 4 * len(rows) + 1


@kernel
def _put_role(names: Names, rows: Int32s, buffer: NDArray[np.uint8], to: int) -> int:
    """Encode a member's tasks in one role."""
    count = 0
    for row in range(len(rows)):
        count += row == 0 or rows[row, 1] != rows[row - 1, 1]
    to = _put_varint(count + 1, buffer, to)
    at = 0
    while at < len(rows):
        subtopology, after = rows[at, 1], at
        while after < len(rows) and rows[after, 1] == subtopology:
            after += 1
        start, end = names[1][subtopology], names[1][subtopology + 1]
        if len(buffer):
            buffer[to : to + end - start] = names[0][start:end]
        to = _put_varint(after - at + 1, buffer, to + end - start)
        to = _put_rows(rows[at:after], buffer, to)
        at = after
    return to


@kernel
def _write(
    names: Names, rows: Int32s, first: Int32s, buffer: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """Write every member's value, or only measure them if the buffer is empty; return the ends."""
    ends = np.zeros(len(first), np.int64)
    to = 0
    for member in range(len(first) - 1):
        at, end = first[member], first[member + 1]
        if len(buffer):
            buffer[to] = buffer[to + 1] = 0  # the version
        to += 2
        for role in range(ROLES):
            stop = at
            while stop < end and rows[stop, 0] == role:
                stop += 1
            to = _put_role(names, rows[at:stop], buffer, to)
            at = stop
        to = _put_varint(0, buffer, to)  # no tagged fields
        ends[member + 1] = to
    return ends
