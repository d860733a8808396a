"""The invariants of a shard's streams groups, in addition to those of all modern groups."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from protocol.groups.streams.group import StreamsGroup
from protocol.groups.streams.task_numbers import task_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.groups.context import Context


def broken(ctx: Context) -> Iterator[str]:
    """Return every invariant that does not hold."""
    for group_id, group in ctx.groups.items():
        if isinstance(group, StreamsGroup):
            yield from (f"{group_id}: {sentence}" for sentence in _processes(group))
            runtime = ctx.modern_runtime.get(group_id)
            if runtime is not None and not runtime.own.index.is_sound():
                yield f"{group_id}: the index of tasks is not that of its members"


def _processes(group: StreamsGroup) -> Iterator[str]:
    """No process has a task twice, and the maintained sums equal a recount."""
    held: Counter[tuple[str, int]] = Counter()
    for member in group.members.values():
        assignment = member.assignment
        for place in (*assignment.assigned, *assignment.revoking):
            held[(member.metadata.process_id, task_of(place))] += 1
    if held != Counter(group.process_tasks):
        yield "the processes of tasks are miscounted"
