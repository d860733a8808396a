"""The sticky task assignor (KIP-1071): tasks stay where their state is, and the load is even.

Active tasks first, standbys then; in each, tasks stay with the members of the previous target while
these have room. An active task whose member is full, or gone, goes to a member with a standby of
it. What is left goes to the least loaded process (tasks per member), and there to the least loaded
member. No process gets a task twice.

With rack-aware tags, a standby goes to one of the processes that differ in the most tags from those
that have the task already; stickiness and load choose among these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from protocol.assignors.kernels import writable
from protocol.assignors.spec import NOBODY, AssignorError, Int32s
from protocol.assignors.tasks.placement import place_active, place_standbys
from protocol.assignors.tasks.spec import TaskAssignment

if TYPE_CHECKING:
    from protocol.assignors.tasks.spec import TaskGroupSpec


class StickyTaskAssignor:
    """Kafka's assignor of streams groups."""

    name = "sticky"

    def assign(self, spec: TaskGroupSpec) -> TaskAssignment:
        """Assign all active tasks, and as many standbys as there are other processes."""
        if not spec.member_count:
            raise AssignorError("there is no member to assign tasks to")
        tasks = spec.task_count
        replicas = min(spec.standby_replicas, spec.process_count - 1)
        starts = writable(spec.task_starts)
        subtopology = np.repeat(np.arange(len(starts) - 1), np.diff(starts)).astype(np.int32)
        index = (np.arange(tasks) - starts[subtopology]).astype(np.int32)
        by_index = np.lexsort((subtopology, index)).astype(np.int32)
        is_stateful = writable(spec.is_stateful)[subtopology]
        wanted_standbys = int(is_stateful.sum()) * spec.standby_replicas
        member_process = writable(spec.member_process)
        members_by_process = np.argsort(member_process, kind="stable").astype(np.int32)
        capacity = np.bincount(member_process, minlength=spec.process_count)
        process_starts = np.cumsum([0, *capacity.tolist()], dtype=np.int32)
        loads = (
            np.zeros(spec.member_count, np.int32),
            np.zeros(spec.process_count, np.int32),
            member_process,
            members_by_process,
            process_starts,
        )
        before = (
            writable(spec.previous_active),
            writable(spec.standby_starts),
            writable(spec.previous_standby),
        )
        quotas = np.array([tasks, spec.member_count, tasks + wanted_standbys, spec.member_count])
        active = np.full(tasks, NOBODY, np.int32)
        place_active(active, by_index, before, loads, quotas)
        if replicas <= 0 or not wanted_standbys:
            return TaskAssignment(active, np.zeros(tasks + 1, np.int32), np.zeros(0, np.int32))
        held = np.full((tasks, replicas), NOBODY, np.int32)
        orders = (by_index[::-1].copy(), is_stateful)
        tags = writable(spec.process_tags).reshape(spec.process_count, spec.tag_count)
        place_standbys(held, active, orders, (before, loads), (quotas, tags))
        return _rows(active, held)


def _rows(active: Int32s, held: Int32s) -> TaskAssignment:
    """Convert the standbys of each task, NOBODY where there are fewer, to rows without gaps."""
    has = held != NOBODY
    starts = np.concatenate([np.zeros(1, np.int32), np.cumsum(has.sum(axis=1), dtype=np.int32)])
    return TaskAssignment(active, starts.astype(np.int32), held[has].astype(np.int32))
