"""Streams groups for timing assignors: how many members a process has, with standbys or without."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bench.cases.assignor_kind import AssignorKind, balance
from protocol.assignors.registry import assign_tasks
from protocol.assignors.spec import NOBODY, Int32s
from protocol.assignors.tasks.spec import TaskAssignment, TaskGroupSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.report.rounds import Figures

THREADS: Final = 10
SHAPES: Final = {
    "standby": "stateful tasks with one standby each; every member is a process",
    "threads": f"the same, {THREADS} members in each process",
    "two-standbys": f"two standbys of each task, {THREADS} members in each process",
    "stateless": f"tasks without standbys, {THREADS} members in each process",
}
_STANDBYS: Final = {"standby": 1, "threads": 1, "two-standbys": 2, "stateless": 0}


def group(shape: str, members: int, subtopologies: int, tasks: int) -> TaskGroupSpec:
    """Create a group that has no tasks yet; ``tasks`` are those of each subtopology."""
    standbys = _STANDBYS[shape]
    threads = 1 if shape == "standby" else THREADS
    total = subtopologies * tasks
    return TaskGroupSpec(
        task_starts=(np.arange(subtopologies + 1) * tasks).astype(np.int32),
        is_stateful=np.full(subtopologies, standbys > 0, np.int32),
        standby_replicas=standbys,
        member_process=(np.arange(members) // threads).astype(np.int32),
        process_count=-(-members // threads),
        previous_active=np.full(total, NOBODY, np.int32),
        standby_starts=np.zeros(total + 1, np.int32),
        previous_standby=np.zeros(0, np.int32),
    )


def without_last(spec: TaskGroupSpec) -> TaskGroupSpec:
    """Remove the last member; what it had nobody has."""
    last = spec.member_count - 1
    stays = spec.previous_standby != last
    kept = np.concatenate([np.zeros(1, np.int32), np.cumsum(stays, dtype=np.int32)])
    process = spec.member_process[:last]
    return replace(
        spec,
        member_process=process,
        process_count=int(process[-1]) + 1,
        previous_active=np.where(spec.previous_active == last, NOBODY, spec.previous_active).astype(
            np.int32
        ),
        standby_starts=kept[spec.standby_starts],
        previous_standby=spec.previous_standby[stays],
    )


def owning(spec: TaskGroupSpec, before: TaskAssignment) -> TaskGroupSpec:
    """Set the tasks that the members had."""
    return replace(
        spec,
        previous_active=before.active,
        standby_starts=before.standby_starts,
        previous_standby=before.standbys,
    )


def quality(spec: TaskGroupSpec, given: TaskAssignment) -> Figures:
    """Measure balance and stickiness.

    ``spread`` and ``sum_of_squares`` are over all tasks of members, ``active_spread`` is over their
    active tasks. ``standbys`` counts those that have a process. ``moved`` counts active tasks that
    leave a member, ``restored`` the tasks that a process has, in whatever role, and had not.
    """
    members = spec.member_count
    active = np.bincount(given.active, minlength=members)
    load = active + np.bincount(given.standbys, minlength=members)
    had = spec.previous_active != NOBODY
    now = _held(spec, given.active, given.standby_starts, given.standbys)
    before = _held(spec, spec.previous_active, spec.standby_starts, spec.previous_standby)
    return {
        **balance(np.zeros(members, np.int32), load),
        "active_spread": int(np.ptp(active)),
        "standbys": len(given.standbys),
        "moved": int(np.count_nonzero(had & (given.active != spec.previous_active))),
        "restored": len(np.setdiff1d(now, before)),
    }


def arrays(spec: TaskGroupSpec) -> list[Int32s]:
    """Return the arrays that ``StreamsPeerGroup.java`` reads."""
    return [
        spec.task_starts, spec.is_stateful, np.array([spec.standby_replicas], np.int32),
        spec.member_process, spec.previous_active, spec.standby_starts, spec.previous_standby,
    ]  # fmt: skip


def _from_kafka(told: Sequence[Int32s]) -> TaskAssignment:
    active, starts, standbys = told
    return TaskAssignment(active, starts, standbys)


def _held(
    spec: TaskGroupSpec, active: Int32s, starts: Int32s, standbys: Int32s
) -> NDArray[np.int64]:
    """Return a number for each task of each process; no two have the same."""
    task = np.arange(spec.task_count, dtype=np.int64)
    tasks = np.concatenate([task[active != NOBODY], np.repeat(task, np.diff(starts))])
    holders = np.concatenate([active[active != NOBODY], standbys])
    numbers: NDArray[np.int64] = spec.member_process[holders] * np.int64(spec.task_count) + tasks
    return numbers


STREAMS: Final = AssignorKind(
    shapes=SHAPES,
    group=group,
    without_last=without_last,
    owning=owning,
    run=assign_tasks,
    quality=quality,
    to_kafka=arrays,
    from_kafka=_from_kafka,
    topics=50,
    partitions=1000,
)
