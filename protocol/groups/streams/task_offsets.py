"""How far members say that their copies of tasks are: soft state.

A member reports the sums of the offsets of each task, and of the ends of its changelogs, since
version 1 of StreamsGroupHeartbeat. By them ``warmups`` knows when a task may move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.groups.topic_numbers import TOPIC_SHIFT
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.streams.configured import ConfiguredTopology
    from protocol.groups.streams.task_numbers import SubtopologyNumbers
    from protocol.groups.topic_numbers import Partition
    from protocol.wire.streams_messages import OwnedTaskOffset, StreamsGroupHeartbeatRequest

    Offsets = tuple[tuple[str, int, int], ...]


class MemberTaskOffsets(NamedTuple):
    """Subtopology, partition and offset of each task that one member reported last."""

    offsets: Offsets = ()
    end_offsets: Offsets = ()


NOTHING = MemberTaskOffsets()


def check_offsets(message: StreamsGroupHeartbeatRequest) -> None:
    """Refuse two offsets for one task."""
    for tasks in (message.task_offsets, message.task_end_offsets):
        seen = set()
        for each in tasks or ():
            task = (each.subtopology_id, each.partition)
            if task in seen:
                raise KafkaError(
                    ErrorCode.invalid_request,
                    f"Task offsets contain a duplicate entry for subtopology {task[0]} and"
                    f" partition {task[1]}.",
                )
            seen.add(task)


def keep_offsets(
    runtime: ModernGroupRuntime,
    configured: ConfiguredTopology | None,
    message: StreamsGroupHeartbeatRequest,
) -> None:
    """Keep what a member reports of tasks that there are; null repeats what it reported last."""
    if message.task_offsets is None and message.task_end_offsets is None:
        return
    kept = runtime.own.offsets
    for member_id in kept.keys() - runtime.group.members.keys():
        del kept[member_id]
    known = kept.get(message.member_id, NOTHING)
    kept[message.member_id] = MemberTaskOffsets(
        known.offsets
        if message.task_offsets is None
        else _of_tasks(configured, message.task_offsets),
        known.end_offsets
        if message.task_end_offsets is None
        else _of_tasks(configured, message.task_end_offsets),
    )


def lags(told: MemberTaskOffsets, numbers: SubtopologyNumbers) -> dict[Partition, int | None]:
    """Return how far a member is behind, by task; None: it has not said where the task ends."""
    if not told.offsets:
        return {}
    ends = {(name, index): end for name, index, end in told.end_offsets}
    found: dict[Partition, int | None] = {}
    for name, index, offset in told.offsets:
        number = numbers.known(name)
        if number is not None:
            end = ends.get((name, index))
            found[number << TOPIC_SHIFT | index] = None if end is None else end - offset
    return found


def _of_tasks(configured: ConfiguredTopology | None, told: Iterable[OwnedTaskOffset]) -> Offsets:
    rows = None if configured is None else configured.rows
    if not rows:
        return ()
    return tuple(
        (each.subtopology_id, each.partition, each.offset)
        for each in told
        if each.subtopology_id in rows and 0 <= each.partition < rows[each.subtopology_id].tasks
    )
