"""A streams group as a worker caches it between two runs: its members and their targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from protocol.assignors.cached_group import in_java_order
from protocol.assignors.spec import NOBODY, Bools, Int32s, no_flags, no_values
from protocol.assignors.tasks.records import decode_targets, encode_targets
from protocol.assignors.tasks.spec import TaskAssignment, TaskGroupSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.groups.effects import GroupChanges, TaskMemberRow, TaskSettings


class CachedTasks:
    """Members and target assignments of one streams group.

    ``run`` is the number of the run whose result ``targets`` is: each member's record value. The
    same in arrays, as of ``_laid_ids`` and ``_layout``, spares the next run the decoding.
    ``is_freed`` marks, after :meth:`spec`, the active tasks whose owner is gone since the last run.
    """

    __slots__ = (
        "_arrays",
        "_laid_ids",
        "_layout",
        "_members",
        "_moves",
        "is_freed",
        "run",
        "targets",
    )

    def __init__(self) -> None:
        self.run = -1
        self.targets: dict[str, bytes] = {}
        self.is_freed: Bools = no_flags()
        self._members: dict[str, TaskMemberRow] = {}
        self._moves: dict[str, str | None] = {}
        self._laid_ids: list[str] = []
        self._layout: Sequence[tuple[str, int]] = ()
        self._arrays: TaskAssignment | None = None

    @property
    def size(self) -> int:
        """The number of tasks, whatever their role."""
        arrays = self._arrays
        return 0 if arrays is None else len(arrays.active) + len(arrays.standbys)

    @property
    def member_ids(self) -> list[str]:
        """The members' ids, sorted as Java sorts strings."""
        return in_java_order(self._members)

    def apply(self, changes: GroupChanges) -> None:
        """Apply changes to the group; see GroupChanges for the order."""
        for old_id, new_id in changes.gone:
            row = self._members.pop(old_id, None)
            target = self.targets.pop(old_id, None)
            self._moves[old_id] = new_id
            if new_id is None:
                continue
            if target is not None:
                self.targets[new_id] = target
            if row is not None:
                self._members[new_id] = row._replace(member_id=new_id)
        for row in changes.members:
            self._members[row.member_id] = row
        self.targets.update(changes.targets)

    def spec(self, settings: TaskSettings, ids: list[str]) -> TaskGroupSpec:
        """Return the group in the form for a task assignor; ``ids`` are the members, sorted."""
        rows = [self._members[member_id] for member_id in ids]
        process_ids = in_java_order({row.process_id for row in rows})
        process = {process_id: number for number, process_id in enumerate(process_ids)}
        starts = task_starts(settings)
        active, standby_starts, standbys = self._before(settings, ids, starts)
        return TaskGroupSpec(
            task_starts=starts,
            is_stateful=np.array([row.is_stateful for row in settings.subtopologies], np.int32),
            standby_replicas=settings.standby_replicas,
            member_process=np.array([process[row.process_id] for row in rows], np.int32),
            process_count=len(process),
            previous_active=active,
            standby_starts=standby_starts,
            previous_standby=standbys,
            process_tags=_process_tags(rows, process, settings.rack_tags),
            tag_count=len(settings.rack_tags),
        )

    def take(
        self, run: int, settings: TaskSettings, ids: list[str], assignment: TaskAssignment
    ) -> list[tuple[str, bytes]]:
        """Store the result of a run; return the members whose target changed, with the bytes."""
        names = [row.subtopology_id for row in settings.subtopologies]
        buffer, ends = encode_targets(assignment, names, task_starts(settings), len(ids))
        stops = ends.tolist()
        targets = {
            member_id: buffer[start:end]
            for member_id, start, end in zip(ids, stops, stops[1:], strict=False)
        }
        before = self.targets
        self.run, self.targets, self._arrays = run, targets, assignment
        self._laid_ids, self._layout, self._moves = ids, _layout(settings), {}
        return [each for each in targets.items() if before.get(each[0]) != each[1]]

    def _before(
        self, settings: TaskSettings, ids: list[str], starts: Int32s
    ) -> tuple[Int32s, Int32s, Int32s]:
        """Return the previous target in terms of the present members and tasks."""
        place = {member_id: number for number, member_id in enumerate(ids)}
        arrays = self._arrays
        if arrays is None or self._layout != _layout(settings):
            names = {row.subtopology_id: n for n, row in enumerate(settings.subtopologies)}
            known = ((place[each], data) for each, data in self.targets.items() if each in place)
            self.is_freed = np.zeros(int(starts[-1]), np.bool_)
            return decode_targets(known, names, starts)
        # The last entry is the one that NOBODY, which is -1, looks up.
        moves = [place.get(self._successor(each), NOBODY) for each in self._laid_ids]
        moved = np.array([*moves, NOBODY], np.int32)
        standbys = moved[arrays.standbys]
        stays = standbys != NOBODY
        kept = np.concatenate([np.zeros(1, np.int32), np.cumsum(stays, dtype=np.int32)])
        self.is_freed = (arrays.active != NOBODY) & (moved[arrays.active] == NOBODY)
        return moved[arrays.active], kept[arrays.standby_starts], standbys[stays]

    def _successor(self, member_id: str) -> str:
        """Return the member that has this one's target by now; "" if it has left."""
        for _ in range(len(self._moves)):
            if member_id not in self._moves:
                break
            member_id = self._moves[member_id] or ""
        return member_id


def task_starts(settings: TaskSettings) -> Int32s:
    """Return the prefix sums of the subtopologies' task counts."""
    return np.cumsum([0, *(row.tasks for row in settings.subtopologies)], dtype=np.int32)


def _layout(settings: TaskSettings) -> list[tuple[str, int]]:
    return [(row.subtopology_id, row.tasks) for row in settings.subtopologies]


def _process_tags(
    rows: Sequence[TaskMemberRow], process: dict[str, int], names: Sequence[str]
) -> Int32s:
    """Return the values of the rack-aware tags of each process, as its first member has them."""
    if not names:
        return no_values()
    tags = np.full((len(process), len(names)), NOBODY, np.int32)
    values: dict[tuple[str, str], int] = {}
    for row in reversed(rows):
        own = dict(row.tags)
        for place, name in enumerate(names):
            if name in own:
                number = values.setdefault((name, own[name]), len(values))
                tags[process[row.process_id], place] = number
    return tags.reshape(-1)
