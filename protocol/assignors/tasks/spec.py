"""The input and output of a task assignor: flat arrays, as those of :mod:`protocol.assignors.spec`.

- *subtopologies* are sorted by id; a task is one partition of one;
- *tasks* are numbered consecutively, subtopology by subtopology;
- *members* are sorted by member id, *processes* by process id. A process has one member or more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from protocol.assignors.spec import NOBODY, AssignorError, Int32s, no_values, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskGroupSpec:
    """A streams group as an assignor sees it: S subtopologies, T tasks, M members, P processes.

    ``task_starts``: S + 1 prefix sums of the subtopologies' task counts; the last one is T.
    ``is_stateful`` (S): 1 for a subtopology with state, whose tasks get standbys.
    ``standby_replicas``: the number of standbys that each stateful task should have.
    ``member_process`` (M): the process of each member.
    ``previous_active`` (T): the member with the active task in the previous target, or ``NOBODY``.
    ``standby_starts`` (T + 1), ``previous_standby``: CSR, the members with a standby of each task
    in the previous target, ascending.
    ``process_tags`` (P * K, row by row): the value of each of the K rack-aware tags, ``NOBODY`` for
    a process without it. ``tag_count``: K.
    """

    task_starts: Int32s
    is_stateful: Int32s
    standby_replicas: int
    member_process: Int32s
    process_count: int
    previous_active: Int32s
    standby_starts: Int32s
    previous_standby: Int32s
    process_tags: Int32s = field(default_factory=no_values)
    tag_count: int = 0

    @property
    def task_count(self) -> int:
        """T."""
        return int(self.task_starts[-1])

    @property
    def member_count(self) -> int:
        """M."""
        return len(self.member_process)


@dataclass(frozen=True, slots=True, eq=False)
class TaskAssignment:
    """``active`` (T): the member with each active task.

    ``standby_starts`` (T + 1), ``standbys``: CSR, the members with a standby of each task. No
    process has a task twice, in whatever role.
    """

    active: Int32s
    standby_starts: Int32s
    standbys: Int32s


@runtime_checkable
class TaskAssignor(Protocol):
    """A task assignor; custom ones are entry points of the group ``rollcall.assignors``."""

    @property
    def name(self) -> str:
        """The name that configs use for it."""

    def assign(self, spec: TaskGroupSpec) -> TaskAssignment:
        """Assign every active task to a member; raise AssignorError when that is impossible."""


def no_tasks(spec: TaskGroupSpec) -> TaskAssignment:
    """Return the assignment of a group without tasks or members."""
    nobody = np.full(spec.task_count, NOBODY, np.int32)
    return TaskAssignment(nobody, np.zeros(spec.task_count + 1, np.int32), no_values())


def check_assignment(
    run: Callable[[TaskGroupSpec], TaskAssignment], name: str, spec: TaskGroupSpec
) -> TaskAssignment:
    """Call an assignor's ``assign`` and check what it returns; anything wrong is AssignorError."""
    if not spec.member_count or not spec.task_count:
        return no_tasks(spec)
    try:
        given = run(spec)
    except AssignorError:
        raise
    except (Exception, SystemExit) as error:  # it must not end its process
        text = " ".join(str(error).split())[:300]
        raise AssignorError(
            f"the assignor {name!r} failed: {type(error).__name__}: {text}"
        ) from error
    arrays = whole_numbers(given, "active", "standby_starts", "standbys")
    if arrays is None:
        raise AssignorError(f"the assignor {name!r} gave no arrays of members")
    active, starts, standbys = arrays
    if why := _why_invalid(spec, active, starts, standbys):
        raise AssignorError(f"the assignor {name!r} gave an invalid assignment: {why}")
    return TaskAssignment(active, starts, standbys)


def _why_invalid(
    spec: TaskGroupSpec, active: Int32s, starts: Int32s, standbys: Int32s
) -> str | None:
    tasks, members = spec.task_count, spec.member_count
    if active.shape != (tasks,) or starts.shape != (tasks + 1,) or standbys.ndim != 1:
        return f"it does not have a row for each of {tasks} tasks"
    if starts[0] != 0 or starts[-1] != len(standbys) or np.any(np.diff(starts) < 0):
        return "its rows of standbys run backwards"
    holders = np.concatenate([active, standbys])
    if len(holders) and (holders.min() < 0 or holders.max() >= members):
        return f"a task has no member, or one that is none of the {members}"
    rows = np.concatenate([np.arange(tasks), np.repeat(np.arange(tasks), np.diff(starts))])
    held = np.sort(rows * spec.process_count + spec.member_process[holders].astype(np.int64))
    if np.any(held[1:] == held[:-1]):
        return "a process has a task twice"
    return None
