"""Carries out an assignor worker's tasks: assignor runs and regular expressions.

This module defines the tasks without a process around them: the worker actors, the simulator and a
coordinator without workers all use this class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from protocol.assignors import registry
from protocol.assignors.cached_group import CachedGroup
from protocol.assignors.encode import changed_members, encode_shared, encode_targets
from protocol.assignors.flat import FlatTargets
from protocol.assignors.regexes import matching_topics
from protocol.assignors.spec import NOBODY, AssignorError, SharedAssignment
from protocol.assignors.tasks.cached import CachedTasks
from protocol.groups.effects import (
    AssignmentComputed,
    AssignmentFailed,
    ComputeAssignment,
    RegexesResolved,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.assignors.encode import EncodedTargets
    from protocol.groups.effects import ResolveRegexes

Answer: TypeAlias = AssignmentComputed | AssignmentFailed

REASON_MAX: Final = 500
"""Characters kept of the message of a failing assignor."""

CACHED_PARTITIONS_MAX: Final = 10_000_000
"""The most partitions in all cached groups together (4 bytes each); least recently used goes."""


class Executor:
    """Runs tasks one after the other, and caches the groups between two runs.

    ``clock_s`` returns the time in seconds, for the measurements in an answer.
    """

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._cached: dict[str, CachedGroup | CachedTasks] = {}

    def run(self, task: ComputeAssignment | ResolveRegexes) -> Answer | RegexesResolved:
        """Run a task; errors are in the answer."""
        if isinstance(task, ComputeAssignment):
            return self._compute(task)
        topics = matching_topics(task.regexes, task.topics)
        return RegexesResolved(group_id=task.group_id, version=task.version, topics=topics)

    def _compute(self, task: ComputeAssignment) -> Answer:
        """Run an assignor; a group whose run fails is dropped, and must be sent whole again."""
        group = self._cached.pop(task.group_id, None)
        if task.base_run is None:
            group = _whole(task)
        elif group is None or group.run != task.base_run:
            return _failed(task, "the worker does not hold the group", needs_whole=True)
        else:
            group.apply(task.changes)
        if task.changes.earlier and isinstance(group, CachedGroup):
            group.take_earlier(task.changes.earlier)
        try:
            if isinstance(group, CachedTasks):
                answer = self._assign_tasks(task, group)
            else:
                answer = self._assign(task, group)
        except AssignorError as error:
            return _failed(task, str(error)[:REASON_MAX])
        self._cache(task.group_id, group)
        return answer

    def _assign(self, task: ComputeAssignment, group: CachedGroup) -> AssignmentComputed:
        spec = group.spec(is_shared=task.is_shared)
        began_s = self._clock_s()
        assignment = registry.assign(task.assignor, spec, is_shared=task.is_shared)
        assignor_ms = (self._clock_s() - began_s) * 1000
        topic_ids = b"".join(topic.topic_id for topic in group.topics)
        if isinstance(assignment, SharedAssignment):
            return _shared(task, group, encode_shared(spec, assignment, topic_ids), assignor_ms)
        owner = assignment.owner
        ids = group.member_ids
        told = None  # all
        if not task.answer_whole:
            fresh = [n for n, each in enumerate(ids) if each not in group.has_target]
            if len(fresh) < len(ids):
                is_told = np.zeros(len(ids), np.bool_)
                is_told[changed_members(spec, owner)] = is_told[fresh] = True
                told = np.flatnonzero(is_told).astype(np.int32)
        encoded = encode_targets(spec, owner, topic_ids, told)
        members = FlatTargets(
            [ids[n] for n in encoded.members.tolist()],
            encoded.starts[1:].astype(np.int32),
            memoryview(encoded.buffer),
        )
        moved = group.count_moved(owner)
        group.take(task.run, owner)
        return AssignmentComputed(
            group_id=task.group_id,
            run=task.run,
            members=members,
            partitions_moved=moved,
            assignor_ms=assignor_ms,
        )

    def _assign_tasks(self, task: ComputeAssignment, group: CachedTasks) -> AssignmentComputed:
        """Run a task assignor; an active task that moves counts as a moved partition."""
        assert task.tasks is not None
        ids = group.member_ids
        spec = group.spec(task.tasks, ids)
        began_s = self._clock_s()
        assignment = registry.assign_tasks(task.assignor, spec)
        assignor_ms = (self._clock_s() - began_s) * 1000
        before = spec.previous_active
        had_another = (before != assignment.active) & (before != NOBODY)
        moved = int(np.count_nonzero(had_another | group.is_freed))
        changed = group.take(task.run, task.tasks, ids, assignment)
        return AssignmentComputed(
            group_id=task.group_id,
            run=task.run,
            members=tuple(group.targets.items()) if task.answer_whole else tuple(changed),
            partitions_moved=moved,
            assignor_ms=assignor_ms,
        )

    def _cache(self, group_id: str, group: CachedGroup | CachedTasks) -> None:
        held = self._cached
        held[group_id] = group
        while len(held) > 1 and sum(each.size for each in held.values()) > CACHED_PARTITIONS_MAX:
            del held[next(iter(held))]


def _shared(
    task: ComputeAssignment, group: CachedGroup, encoded: EncodedTargets, assignor_ms: float
) -> AssignmentComputed:
    """Answer with the members whose bytes changed; shared partitions do not count as moved."""
    targets = dict(zip(group.member_ids, encoded.values(), strict=True))
    before = {} if task.answer_whole else group.shared
    group.shared = targets
    group.run = task.run
    return AssignmentComputed(
        group_id=task.group_id,
        run=task.run,
        members=tuple(each for each in targets.items() if before.get(each[0]) != each[1]),
        assignor_ms=assignor_ms,
    )


def _whole(task: ComputeAssignment) -> CachedGroup | CachedTasks:
    if task.tasks is not None:
        tasks = CachedTasks()
        tasks.apply(task.changes)
        return tasks
    group = CachedGroup()
    group.apply(task.changes)
    group.take_targets(task.changes.targets)
    group.shared = dict(task.changes.targets)
    return group


def _failed(task: ComputeAssignment, reason: str, *, needs_whole: bool = False) -> AssignmentFailed:
    return AssignmentFailed(
        group_id=task.group_id,
        run=task.run,
        reason=reason,
        needs_whole=needs_whole,
    )
