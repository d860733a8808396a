"""Tasks and their answers as bytes: what a coordinator and an assignor worker hand each other.

A large group is packed in parts of bounded size, so that the coordinator's loop can look at its
sockets between two of them. An answer is a header and one buffer: the coordinator cuts a member's
bytes out of it when it needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, overload

import msgpack
import numpy as np

from protocol.groups.effects import (
    AssignmentComputed,
    AssignmentFailed,
    ComputeAssignment,
    GroupChanges,
    MemberRow,
    RegexesResolved,
    ResolveRegexes,
    TopicRow,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from protocol.assignors.spec import Int32s

PART_ROWS: Final = 1_000
"""Rows per part: about a quarter of a millisecond to pack."""

COMPUTE: Final = "compute"
RESOLVE: Final = "resolve"

_ROWS: Final = ("topics", "gone", "members", "targets")
"""The fields of GroupChanges that can be long."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What a run took, in milliseconds: waiting for the worker, and running."""

    queue_ms: float
    processing_ms: float


def task_parts(task: ComputeAssignment | ResolveRegexes) -> Iterator[bytes]:
    """Pack a task in parts, lazily: the first tells what it is, the others are rows of it."""
    if isinstance(task, ResolveRegexes):
        yield _pack([RESOLVE, task.group_id, task.version, task.regexes])
        yield from _rows("topics", task.topics)
        return
    changes = task.changes
    yield _pack(
        [
            COMPUTE,
            task.group_id,
            task.group_epoch,
            task.assignor,
            task.base_epoch,
            task.answer_whole,
            changes.topics is not None,
            list(changes.dropped_subscriptions),
        ]
    )
    for number, names in changes.subscriptions.items():
        yield from _rows(number, names) if names else (_pack([number, []]),)
    for name in _ROWS:
        yield from _rows(name, getattr(changes, name) or ())


def read_task(parts: Sequence[bytes]) -> ComputeAssignment | ResolveRegexes:
    """Put a task together again."""
    kind, *header = _unpack(parts[0])
    rows: dict[Any, list[Any]] = {}
    for part in parts[1:]:
        name, values = _unpack(part)
        rows.setdefault(name, []).extend(values)
    if kind == RESOLVE:
        group_id, version, regexes = header
        return ResolveRegexes(
            group_id=group_id,
            version=version,
            regexes=tuple(regexes),
            topics=rows.get("topics", []),
        )
    group_id, group_epoch, assignor, base_epoch, answer_whole, has_topics, dropped = header
    topics = tuple(
        TopicRow(topic_id, name, count, tuple(map(tuple, racks)))
        for topic_id, name, count, racks in rows.get("topics", ())
    )
    changes = GroupChanges(
        topics=topics if has_topics else None,
        subscriptions={n: tuple(names) for n, names in rows.items() if isinstance(n, int)},
        gone=tuple((old_id, new_id) for old_id, new_id in rows.get("gone", ())),
        members=tuple(MemberRow(*row) for row in rows.get("members", ())),
        dropped_subscriptions=tuple(dropped),
        targets=tuple((member_id, value) for member_id, value in rows.get("targets", ())),
    )
    return ComputeAssignment(
        group_id=group_id,
        group_epoch=group_epoch,
        assignor=assignor,
        base_epoch=base_epoch,
        changes=changes,
        answer_whole=answer_whole,
    )


class CutMembers(Sequence[tuple[str, bytes]]):
    """Members and their bytes, cut out of one buffer when they are asked for."""

    __slots__ = ("_buffer", "_ends", "_member_ids")

    def __init__(self, member_ids: Sequence[str], ends: Int32s, buffer: memoryview) -> None:
        self._member_ids = member_ids
        self._ends = ends
        self._buffer = buffer

    def __len__(self) -> int:
        return len(self._member_ids)

    @overload
    def __getitem__(self, index: int) -> tuple[str, bytes]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[str, bytes]]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        start = int(self._ends[index - 1]) if index else 0
        return self._member_ids[index], bytes(self._buffer[start : int(self._ends[index])])


def pack_answer(
    answer: AssignmentComputed | AssignmentFailed | RegexesResolved, timing: Timing
) -> bytes:
    """Pack a worker's answer, and what it took."""
    times = [timing.queue_ms, timing.processing_ms]
    if isinstance(answer, AssignmentComputed):
        values = [value for _, value in answer.members]
        ends = np.cumsum([len(value) for value in values], dtype=np.int32)
        header = [
            answer.group_id,
            answer.group_epoch,
            answer.partitions_moved,
            answer.assignor_ms,
            [member_id for member_id, _ in answer.members],
        ]
        packed = _pack([type(answer).__name__, times, header])
        return b"".join([packed, _pack(ends.astype("<i4").tobytes()), *values])
    row = {each.name: getattr(answer, each.name) for each in fields(answer)}
    return _pack([type(answer).__name__, times, row])


def read_answer(
    packed: bytes,
) -> tuple[AssignmentComputed | AssignmentFailed | RegexesResolved, Timing]:
    """Read a worker's answer; the bytes of the members stay where they are."""
    reader = msgpack.Unpacker(max_buffer_size=max(len(packed), 1), strict_map_key=False)
    reader.feed(packed)
    name, times, row = reader.unpack()
    timing = Timing(*times)
    if name == AssignmentFailed.__name__:
        return AssignmentFailed(**row), timing
    if name == RegexesResolved.__name__:
        topics = row["topics"]
        if topics is not None:
            topics = {regex: tuple(names) for regex, names in topics.items()}
        return RegexesResolved(**{**row, "topics": topics}), timing
    group_id, group_epoch, moved, assignor_ms, member_ids = row
    ends = np.frombuffer(reader.unpack(), "<i4")
    members = CutMembers(member_ids, ends, memoryview(packed)[reader.tell() :])
    answer = AssignmentComputed(
        group_id=group_id,
        group_epoch=group_epoch,
        members=members,
        partitions_moved=moved,
        assignor_ms=assignor_ms,
    )
    return answer, timing


def _rows(name: str | int, rows: Iterable[Any]) -> Iterator[bytes]:
    left = iter(rows)
    while part := list(islice(left, PART_ROWS)):
        yield _pack([name, part])


def _pack(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


def _unpack(packed: bytes) -> Any:
    return msgpack.unpackb(packed, strict_map_key=False)
