"""How far members say that their copies of tasks are: soft state that is only described.

A member reports the sums of the offsets of each task, and of the ends of its changelogs, since
version 1 of StreamsGroupHeartbeat. No assignor here reads them: there are no warm-up tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.streams.configured import ConfiguredTopology
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


def _of_tasks(configured: ConfiguredTopology | None, told: Iterable[OwnedTaskOffset]) -> Offsets:
    rows = None if configured is None else configured.rows
    if not rows:
        return ()
    return tuple(
        (each.subtopology_id, each.partition, each.offset)
        for each in told
        if each.subtopology_id in rows and 0 <= each.partition < rows[each.subtopology_id].tasks
    )
