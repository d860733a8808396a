"""The encoding of tasks and answers between a coordinator and an assignor worker.

A task is a sequence of frames; each is a msgpack header with flat arrays. A large group is encoded
lazily in parts of bounded size, so that the coordinator's event loop can poll its sockets between
two parts. All frames of a small group are one part: each part is a call of the worker, which costs
both sides more than the run of a small group. An
answer is a header and one buffer, from which the coordinator slices a member's bytes when it needs
them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgpack
import numpy as np

from protocol.assignors.flat import FlatSubscriptions, FlatTargets, Piece, pieces
from protocol.groups.effects import (
    AssignmentComputed,
    AssignmentFailed,
    ComputeAssignment,
    GroupChanges,
    MemberRow,
    RegexesResolved,
    ResolveRegexes,
    SubtopologyRow,
    TaskMemberRow,
    TaskSettings,
)
from protocol.groups.topic_row import TopicRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

FRAME_ROWS: Final = 1_000
"""Rows per frame: a quarter of a millisecond to encode."""

FRAME_RACKS: Final = 10_000
"""Partitions with racks per frame: less than a millisecond to look up."""

FRAME_BYTES: Final = 64 * 1024
"""Bytes of target assignments per frame."""

PART_BYTES: Final = 16 * 1024
"""Frames are joined to parts of up to this size; a larger frame is a part of its own."""

TASK_FORMAT: Final = 1
"""Changes with the encoding: a coordinator uses no worker that has another one."""

Row = TypeVar("Row", bound=tuple[Any, ...])

COMPUTE: Final = "compute"
RESOLVE: Final = "resolve"
TRACE: Final = "trace"


@dataclass(frozen=True, slots=True)
class RunTiming:
    """The duration of a run in milliseconds: in the queue, and running."""

    queue_ms: float
    processing_ms: float


def task_parts(task: ComputeAssignment | ResolveRegexes, traceparent: str = "") -> Iterator[bytes]:
    """Encode a task in parts, lazily; ``traceparent`` is the context of its trace, if it has one.

    Workers that know no contexts leave the frame of the context out.
    """
    part: list[bytes] = []
    size = 0
    frames = _task_frames(task)
    context = [_pack([TRACE, traceparent])] if traceparent else []
    for frame in chain(islice(frames, 1), context, frames):
        if part and size + len(frame) > PART_BYTES:
            yield b"".join(part)
            part, size = [], 0
        part.append(frame)
        size += len(frame)
    yield b"".join(part)


def _task_frames(task: ComputeAssignment | ResolveRegexes) -> Iterator[bytes]:
    """Encode a task: first a header, then rows."""
    if isinstance(task, ResolveRegexes):
        yield _pack([RESOLVE, task.group_id, task.version, task.regexes])
        for names in _slices(task.topics):
            yield _pack(["names", names])
        return
    changes = task.changes
    yield _pack(
        [
            COMPUTE,
            task.group_id,
            task.run,
            task.assignor,
            task.base_run,
            task.answer_whole,
            task.is_shared,
            changes.topics is not None,
            list(changes.dropped_subscriptions),
            task.tasks,
        ]
    )
    yield from _topic_frames(changes.topics or ())
    for piece in pieces(changes.subscriptions):
        yield _pack(["subscriptions", piece.names, *map(_raw, piece[1:])])
    for gone in _slices(changes.gone):
        yield _pack(["gone", gone])
    for members in _slices(changes.members):
        yield _pack(["members", *zip(*members, strict=True)])
    yield from _target_frames("targets", changes.targets)
    yield from _target_frames("earlier", changes.earlier)


def read_context(parts: Sequence[bytes]) -> str:
    """Return the context of a task's trace; "" if it has none."""
    name, *columns = next(islice(chain.from_iterable(map(_unpack_all, parts)), 1, None), [""])
    is_context = name == TRACE and len(columns) == 1 and isinstance(columns[0], str)
    return columns[0] if is_context else ""


def read_task(parts: Iterable[bytes]) -> ComputeAssignment | ResolveRegexes:
    """Decode a task."""
    frames = chain.from_iterable(map(_unpack_all, parts))
    kind, *header = next(frames)
    found: dict[str, list[list[Any]]] = {}
    for name, *columns in frames:
        found.setdefault(name, []).append(columns)
    if kind == RESOLVE:
        group_id, version, regexes = header
        return ResolveRegexes(
            group_id=group_id,
            version=version,
            regexes=tuple(regexes),
            topics=[name for (names,) in found.get("names", ()) for name in names],
        )
    group_id, run, assignor, base_run, answer_whole, is_shared, *more = header
    has_topics, dropped, tasks = more
    changes = GroupChanges(
        topics=_read_topics(found.get("topics", ())) if has_topics else None,
        subscriptions=_read_subscriptions(found.get("subscriptions", ())),
        gone=tuple((old, new) for (rows,) in found.get("gone", ()) for old, new in rows),
        members=tuple(
            row for columns in found.get("members", ()) for row in _members(tasks, columns)
        ),
        dropped_subscriptions=tuple(dropped),
        targets=tuple(row for columns in found.get("targets", ()) for row in _targets(*columns)),
        earlier=tuple(row for columns in found.get("earlier", ()) for row in _targets(*columns)),
    )
    return ComputeAssignment(
        group_id=group_id,
        run=run,
        assignor=assignor,
        base_run=base_run,
        changes=changes,
        answer_whole=answer_whole,
        is_shared=is_shared,
        tasks=_read_settings(tasks),
    )


def pack_answer(
    answer: AssignmentComputed | AssignmentFailed | RegexesResolved, timing: RunTiming
) -> bytes:
    """Encode a worker's answer and its timing."""
    times = [timing.queue_ms, timing.processing_ms]
    if isinstance(answer, AssignmentComputed):
        told = FlatTargets.of(answer.members)
        header = [
            answer.group_id,
            answer.run,
            answer.partitions_moved,
            answer.assignor_ms,
            told.member_ids,
            told.ends.astype("<i4", copy=False).tobytes(),
        ]
        return b"".join([_pack([type(answer).__name__, times, header]), told.buffer])
    row = {each.name: getattr(answer, each.name) for each in fields(answer)}
    return _pack([type(answer).__name__, times, row])


def read_answer(
    packed: bytes,
) -> tuple[AssignmentComputed | AssignmentFailed | RegexesResolved, RunTiming]:
    """Decode a worker's answer; the bytes of the members are not copied."""
    reader = msgpack.Unpacker(max_buffer_size=max(len(packed), 1), strict_map_key=False)
    reader.feed(packed)
    name, times, row = reader.unpack()
    timing = RunTiming(*times)
    if name == AssignmentFailed.__name__:
        return AssignmentFailed(**row), timing
    if name == RegexesResolved.__name__:
        topics = row["topics"]
        if topics is not None:
            topics = {regex: tuple(names) for regex, names in topics.items()}
        return RegexesResolved(**{**row, "topics": topics}), timing
    group_id, run, moved, assignor_ms, member_ids, ends = row
    buffer = memoryview(packed)[reader.tell() :]
    answer = AssignmentComputed(
        group_id=group_id,
        run=run,
        members=FlatTargets(member_ids, np.frombuffer(ends, "<i4"), buffer),
        partitions_moved=moved,
        assignor_ms=assignor_ms,
        queue_ms=timing.queue_ms,
    )
    return answer, timing


# --- topics: ids, names, partition counts; the racks of each partition as numbers of sets of racks


def _topic_frames(topics: Iterable[TopicRow]) -> Iterator[bytes]:
    sets: dict[tuple[str, ...], int] = {}
    for rows in _slices(topics):
        for some in _by_racks(rows) if any(row.racks for row in rows) else (rows,):
            yield _topic_part(some, sets)


def _by_racks(topics: Iterable[TopicRow]) -> Iterator[list[TopicRow]]:
    rows: list[TopicRow] = []
    counted = 0
    for topic in topics:
        rows.append(topic)
        counted += len(topic.racks)
        if counted >= FRAME_RACKS:
            yield rows
            rows, counted = [], 0
    if rows:
        yield rows


def _topic_part(rows: Sequence[TopicRow], sets: dict[tuple[str, ...], int]) -> bytes:
    ids, names, counts, all_racks, all_assignable = zip(*rows, strict=True)
    assignable = [_shortened(each) for each in all_assignable]
    if not any(all_racks):
        return _pack(["topics", ids, names, counts, assignable, (), (), b""])
    before = len(sets)
    numbers = [sets.setdefault(racks, len(sets)) for row in all_racks for racks in row]
    fresh = list(islice(sets, before, None))
    sizes = [len(racks) for racks in all_racks]
    numbers_of_sets = _raw(np.array(numbers, np.int32))
    return _pack(["topics", ids, names, counts, assignable, sizes, fresh, numbers_of_sets])


def _shortened(assignable: Sequence[int] | None) -> Sequence[int] | int | None:
    """Shorten to a count: the assignable partitions are nearly always a topic's first ones."""
    if assignable is None:
        return None
    count = len(assignable)
    return count if assignable == tuple(range(count)) else assignable


def _lengthened(assignable: Sequence[int] | int | None) -> tuple[int, ...] | None:
    if assignable is None:
        return None
    return tuple(range(assignable) if isinstance(assignable, int) else assignable)


def _read_topics(parts: Iterable[list[Any]]) -> tuple[TopicRow, ...]:
    sets: list[tuple[str, ...]] = []
    topics: list[TopicRow] = []
    for ids, names, counts, shortened, sizes, fresh, numbers in parts:
        assignable = map(_lengthened, shortened)
        if not sizes:
            topics += _rows(TopicRow, ids, names, counts, repeat(()), assignable)
            continue
        sets.extend(map(tuple, fresh))
        left = iter(np.frombuffer(numbers, "<i4").tolist())
        topics += [
            TopicRow(
                topic_id, name, count, tuple(sets[number] for number in islice(left, size)), which
            )
            for topic_id, name, count, size, which in zip(
                ids, names, counts, sizes, assignable, strict=True
            )
        ]
    return tuple(topics)


# --- subscriptions, members, targets


def _read_subscriptions(parts: Iterable[list[Any]]) -> Mapping[int, frozenset[str]]:
    return FlatSubscriptions(
        Piece(
            names,
            np.frombuffer(numbers, "<i8"),
            np.frombuffer(counts, "<i4"),
            np.frombuffer(indexes, "<i4"),
        )
        for names, numbers, counts, indexes in parts
    )


def _target_frames(name: str, targets: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    rows: list[tuple[str, bytes]] = []
    size = 0
    for row in targets:
        rows.append(row)
        size += len(row[1])
        if len(rows) == FRAME_ROWS or size >= FRAME_BYTES:
            yield _target_part(name, rows)
            rows, size = [], 0
    if rows:
        yield _target_part(name, rows)


def _target_part(name: str, rows: Sequence[tuple[str, bytes]]) -> bytes:
    told = FlatTargets.of(rows)
    return _pack([name, told.member_ids, _raw(told.ends), told.buffer])


def _targets(member_ids: list[str], ends: bytes, buffer: bytes) -> Iterator[tuple[str, bytes]]:
    start = 0
    for member_id, end in zip(member_ids, np.frombuffer(ends, "<i4").tolist(), strict=True):
        yield member_id, buffer[start:end]
        start = end


def _members(tasks: Any, columns: Sequence[Any]) -> Iterator[MemberRow] | Iterator[TaskMemberRow]:
    if tasks is None:
        return _rows(MemberRow, *columns)
    *plain, tags = columns
    return _rows(TaskMemberRow, *plain, [tuple(map(tuple, each)) for each in tags])


def _read_settings(tasks: Any) -> TaskSettings | None:
    if tasks is None:
        return None
    subtopologies, standby_replicas, rack_tags = tasks
    return TaskSettings(
        tuple(SubtopologyRow(*row) for row in subtopologies), standby_replicas, tuple(rack_tags)
    )


# --- bytes


def _rows(kind: type[Row], *columns: Iterable[Any]) -> Iterator[Row]:
    """Build named tuples without their constructor, in two thirds of the time."""
    return map(partial(tuple.__new__, kind), zip(*columns, strict=False))


def _slices(rows: Iterable[Any]) -> Iterator[list[Any]]:
    left = iter(rows)
    while part := list(islice(left, FRAME_ROWS)):
        yield part


def _raw(values: Any) -> bytes:
    """Return an array's bytes, little-endian."""
    raw: bytes = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
    return raw


def _pack(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


def _unpack(packed: bytes) -> Any:
    return msgpack.unpackb(packed, strict_map_key=False)


def _unpack_all(part: bytes) -> Iterator[Any]:
    frames = msgpack.Unpacker(strict_map_key=False, max_buffer_size=len(part))
    frames.feed(part)
    return iter(frames)
