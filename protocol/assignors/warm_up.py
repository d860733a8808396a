"""Compiles every kernel before the first assignment, or loads code that is cached on disk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from protocol.assignors.cached_subscriptions import sort_rows
from protocol.assignors.decode import decode_shared, decode_targets
from protocol.assignors.encode import encode_targets
from protocol.assignors.flat import FlatTargets
from protocol.assignors.range import RangeAssignor
from protocol.assignors.simple import SimpleAssignor
from protocol.assignors.spec import GroupSpec
from protocol.assignors.tasks.cached import CachedTasks
from protocol.assignors.tasks.sticky import StickyTaskAssignor
from protocol.assignors.uniform import UniformAssignor
from protocol.assignors.uniform2 import Uniform2Assignor
from protocol.groups.effects import GroupChanges, SubtopologyRow, TaskMemberRow, TaskSettings

if TYPE_CHECKING:
    from protocol.assignors.spec import Int32s


def warm_up() -> None:
    """Compile every kernel, or load the code that an earlier process cached.

    A cold start takes about forty seconds, one with the cache one second.
    """
    for spec in _tiny_groups():
        sort_rows(spec.class_topics, spec.class_starts[1:].copy(), spec.topic_count)
        for assignor in (RangeAssignor(), UniformAssignor(), Uniform2Assignor()):
            owner = assignor.assign(spec).owner
        SimpleAssignor().assign(spec)
        encoded = encode_targets(spec, owner, bytes(16 * spec.topic_count))
        told = FlatTargets.of([("", value) for value in encoded.values()])
        decode_shared(told, bytes(16 * spec.topic_count), spec.partition_starts)
        decode_targets(told, encoded.members, bytes(16 * spec.topic_count), spec.partition_starts)
    _warm_up_tasks()


def _warm_up_tasks() -> None:
    """Compile the kernels of task assignors: without rack-aware tags, and with one."""
    settings = TaskSettings((SubtopologyRow("0", 2, is_stateful=True),), 1)
    members = tuple(TaskMemberRow(name, None, None, 0, name, (("t", name),)) for name in "ab")
    for rack_tags in ((), ("t",)):
        group = CachedTasks()
        group.apply(GroupChanges(members=members))
        some = settings._replace(rack_tags=rack_tags)
        ids = group.member_ids
        for _ in range(2):  # the second time, tasks stay
            assignment = StickyTaskAssignor().assign(group.spec(some, ids))
            group.take(0, some, ids, assignment)


def _tiny_groups() -> list[GroupSpec]:
    """Return groups of two members that together run every kernel."""

    def array(*values: int) -> Int32s:
        return np.array(values, np.int32)

    plain = GroupSpec(
        partition_starts=array(0, 2, 4),
        class_starts=array(0, 2, 3),
        class_topics=array(0, 1, 0),
        member_class=array(0, 1, 1),
        previous_owner=array(0, 0, -1, 0),
    )
    same = replace(plain, member_class=array(1, 1, 1))
    racks: dict[str, Any] = {
        "member_rack": array(0, 1, -1),
        "rack_starts": array(0, 1, 2, 3, 4),
        "partition_racks": array(0, 1, 0, 1),
    }
    return [plain, same, replace(plain, **racks), replace(same, **racks)]
