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
from numpy.typing import NDArray

from protocol.assignors.kernels import writable
from protocol.assignors.spec import NOBODY, AssignorError, Int32s
from protocol.assignors.tasks.placement import (
    Lanes,
    Queues,
    order_by_index,
    place_active,
    place_by_tags,
    place_standbys,
    rows_of,
)
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
        tasks, members = spec.task_count, spec.member_count
        replicas = min(spec.standby_replicas, spec.process_count - 1)
        starts = writable(spec.task_starts)
        by_index = order_by_index(starts)
        is_stateful = np.repeat(writable(spec.is_stateful), np.diff(starts))
        standbys = int(is_stateful.sum()) * spec.standby_replicas
        tags = writable(spec.process_tags).reshape(spec.process_count, spec.tag_count)
        member_process = writable(spec.member_process)
        loads = (
            np.zeros(members, np.int32),
            np.zeros(spec.process_count, np.int32),
            member_process,
        )
        before = (
            writable(spec.previous_active),
            writable(spec.standby_starts),
            writable(spec.previous_standby),
        )
        quotas = np.array([*_quota(tasks, members), *_quota(tasks + standbys, members)])
        active = np.full(tasks, NOBODY, np.int32)
        no_standbys = np.zeros((tasks, 0), np.int32)
        queues = _queues(member_process, tags)
        place_active(by_index, ((active, no_standbys), before, queues, loads), quotas)
        if replicas <= 0 or not standbys:
            return TaskAssignment(active, np.zeros(tasks + 1, np.int32), np.zeros(0, np.int32))
        held = np.full((tasks, replicas), NOBODY, np.int32)
        order = by_index, is_stateful
        state = (active, held), before, _queues(member_process, tags), loads
        if spec.tag_count:
            place_by_tags(order, state, quotas, tags)
        else:
            place_standbys(order, state, quotas)
        return TaskAssignment(active, *rows_of(held))


def _quota(tasks: int, members: int) -> tuple[int, int, int]:
    return tasks, members, -(-tasks // members)


def _queues(member_process: Int32s, tags: Int32s) -> Queues:
    """Sort processes into lanes by size and tags, and members by process; none is ready yet."""
    sizes = np.bincount(member_process, minlength=len(tags))
    members = np.argsort(member_process, kind="stable").astype(np.int32)
    kinds, numbers = np.unique(np.column_stack([sizes, tags]), axis=0, return_inverse=True)
    lane_of: Int32s = numbers.reshape(-1).astype(np.int32)
    processes = np.argsort(lane_of, kind="stable").astype(np.int32)
    lanes = _lanes(np.bincount(lane_of), processes)
    size_of: Int32s = kinds[:, 0].astype(np.int32)
    return lanes, lane_of, size_of, _lanes(sizes, members)


def _lanes(sizes: NDArray[np.intp], items: Int32s) -> Lanes:
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    heads = starts[:-1]
    return starts, items, np.zeros_like(items), heads.copy(), heads.copy(), np.zeros_like(heads)
