"""The sticky task assignor: balance, stickiness, standbys on other processes and racks."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.assignors import registry
from protocol.assignors.executor import Executor
from protocol.assignors.spec import NOBODY, AssignorError
from protocol.assignors.tasks.records import decode_targets, encode_targets
from protocol.assignors.tasks.spec import TaskAssignment, TaskGroupSpec, check_assignment
from protocol.assignors.tasks.sticky import StickyTaskAssignor
from protocol.groups.effects import (
    AssignmentComputed,
    ComputeAssignment,
    GroupChanges,
    SubtopologyRow,
    TaskMemberRow,
    TaskSettings,
)
from protocol.groups.streams.task_numbers import SubtopologyNumbers
from protocol.groups.streams.task_records import read_target, write_target
from protocol.records import (
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    TargetTaskIds,
    encode_value,
)
from tests.effort import examples

KEY = StreamsGroupTargetAssignmentMemberKey("g", "m")


def spec_of(
    tasks: tuple[int, ...],
    processes: tuple[int, ...],
    *,
    standbys: int = 0,
    stateless: tuple[int, ...] = (),
    before: TaskAssignment | None = None,
    tags: tuple[tuple[int, ...], ...] = (),
) -> TaskGroupSpec:
    """Make a group from the subtopologies' task counts and each member's process."""
    total = sum(tasks)
    if before is None:
        nobody = np.full(total, NOBODY, np.int32)
        before = TaskAssignment(nobody, np.zeros(total + 1, np.int32), np.zeros(0, np.int32))
    return TaskGroupSpec(
        task_starts=np.cumsum([0, *tasks], dtype=np.int32),
        is_stateful=np.array([n not in stateless for n in range(len(tasks))], np.int32),
        standby_replicas=standbys,
        member_process=np.array(processes, np.int32),
        process_count=len(set(processes)),
        previous_active=before.active,
        standby_starts=before.standby_starts,
        previous_standby=before.standbys,
        process_tags=np.array(tags, np.int32).reshape(-1),
        tag_count=len(tags[0]) if tags else 0,
    )


def assigned(spec: TaskGroupSpec) -> TaskAssignment:
    return check_assignment(StickyTaskAssignor().assign, "sticky", spec)


def standbys_of(assignment: TaskAssignment) -> list[list[int]]:
    starts = assignment.standby_starts.tolist()
    return [assignment.standbys[start:end].tolist() for start, end in pairwise(starts)]


def holding(active: list[int], standbys: list[list[int]] | None = None) -> TaskAssignment:
    rows = standbys or [[] for _ in active]
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    flat = np.array([each for row in rows for each in row], np.int32)
    return TaskAssignment(np.array(active, np.int32), starts, flat)


@pytest.mark.parametrize(
    ("tasks", "processes", "before", "active"),
    [
        ((3,), (0,), None, [0, 0, 0]),
        ((3,), (0, 1, 2), None, [0, 1, 2]),
        # a larger process gets as many tasks per member
        ((6,), (0, 0, 1), None, [0, 2, 1, 0, 2, 1]),
        # a subtopology's tasks are neighbours
        ((2, 2), (0, 1), None, [0, 1, 0, 1]),
        # tasks stay; a newcomer gets what is above the others' quota
        ((4,), (0, 1), [0, 0, 0, 0], [0, 0, 1, 1]),
        ((3,), (0, 1, 2), [2, 1, 0], [2, 1, 0]),
        # a member that left: its tasks go where there is room
        ((4,), (0, 1), [0, NOBODY, 1, NOBODY], [0, 0, 1, 1]),
    ],
)
def test_active_tasks(
    tasks: tuple[int, ...], processes: tuple[int, ...], before: list[int] | None, active: list[int]
) -> None:
    spec = spec_of(tasks, processes, before=None if before is None else holding(before))
    assert assigned(spec).active.tolist() == active


def test_an_active_task_whose_member_left_goes_to_its_standby() -> None:
    before = holding([NOBODY, 0], [[1], [1]])
    assert assigned(spec_of((2,), (0, 1), standbys=1, before=before)).active.tolist() == [1, 0]


def test_standbys_are_on_other_processes_as_many_as_there_are() -> None:
    first = assigned(spec_of((4,), (0, 0, 1, 1), standbys=1))
    process = [0, 0, 1, 1]
    for active, standbys in zip(first.active.tolist(), standbys_of(first), strict=True):
        assert [process[each] for each in standbys] == [1 - process[active]]
    alone = assigned(spec_of((4,), (0, 0), standbys=2))
    assert standbys_of(alone) == [[], [], [], []]


def test_only_stateful_tasks_have_standbys_and_they_stay() -> None:
    spec = spec_of((2, 2), (0, 1, 2), standbys=1, stateless=(0,))
    first = assigned(spec)
    assert [len(each) for each in standbys_of(first)] == [0, 0, 1, 1]
    again = assigned(spec_of((2, 2), (0, 1, 2), standbys=1, stateless=(0,), before=first))
    assert again.active.tolist() == first.active.tolist()
    assert standbys_of(again) == standbys_of(first)


def test_standbys_differ_in_their_tags_as_far_as_they_can() -> None:
    zones = ((0,), (0,), (1,), (1,))  # of processes 0 to 3
    spec = spec_of((4,), (0, 1, 2, 3), standbys=1, tags=zones)
    given_ = assigned(spec)
    zone = [0, 0, 1, 1]
    for active, standbys in zip(given_.active.tolist(), standbys_of(given_), strict=True):
        assert [zone[each] for each in standbys] == [1 - zone[active]]
    assert max(Counter(given_.standbys.tolist()).values()) == 1
    two = assigned(spec_of((4,), (0, 1, 2, 3), standbys=2, tags=zones))
    assert all(len(each) == 2 for each in standbys_of(two))  # the second has no zone left


groups = st.tuples(
    st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple),
    st.integers(1, 4),
    st.integers(1, 7),
    st.integers(0, 3),
)


@given(groups, st.integers(1, 7), st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_any_group_is_balanced_complete_and_stays_where_it_is(
    group: tuple[tuple[int, ...], int, int, int], later: int, has_tags: bool
) -> None:
    tasks, processes, members, standbys = group
    process = tuple(n % min(processes, members) for n in range(members))
    tags = tuple((n % 2,) for n in range(len(set(process)))) if has_tags else ()
    spec = spec_of(tasks, process, standbys=standbys, tags=tags)
    first = assigned(spec)
    counts = Counter(first.active.tolist())
    if sum(tasks):
        loads = [counts[member] for member in range(members)]
        sizes = Counter(process)
        most = max(sum(tasks) // members + 1, 1)
        assert max(loads) <= most + (len(set(sizes.values())) > 1)
        copies = min(standbys, len(set(process)) - 1)
        assert [len(each) for each in standbys_of(first)] == [copies] * sum(tasks)
    again = assigned(spec_of(tasks, process, standbys=standbys, tags=tags, before=first))
    moved = np.count_nonzero(again.active != first.active)
    if len(set(Counter(process).values())) == 1:
        assert moved == 0
    # A group of another size: those that are left keep as much as their quota allows.
    smaller = tuple(n % min(processes, later) for n in range(later))
    before = holding(
        [n if n < later else NOBODY for n in first.active.tolist()],
        [[n for n in row if n < later] for row in standbys_of(first)],
    )
    assigned(spec_of(tasks, smaller, standbys=standbys, before=before))


@pytest.mark.parametrize(
    ("active", "standbys", "why"),
    [
        ([0], [[], []], "does not have a row for each of 2 tasks"),
        ([0, 2], [[], []], "none of the 2"),
        ([0, NOBODY], [[], []], "a task has no member"),
        ([0, 1], [[0], []], "a process has a task twice"),
    ],
)
def test_what_a_custom_assignor_gives_is_checked(
    active: list[int], standbys: list[list[int]], why: str
) -> None:
    with pytest.raises(AssignorError, match=why):
        check_assignment(lambda _: holding(active, standbys), "own", spec_of((2,), (0, 1)))


def test_what_a_custom_assignor_raises_fails_the_run() -> None:
    def broken(_: TaskGroupSpec) -> TaskAssignment:
        raise ValueError("no idea")

    with pytest.raises(AssignorError, match="ValueError: no idea"):
        check_assignment(broken, "own", spec_of((2,), (0, 1)))


def test_targets_are_the_bytes_of_their_records() -> None:
    given_ = holding([0, 1, 0], [[1], [], [1]])
    starts = np.array([0, 2, 3], np.int32)
    names = ["a", "b" * 200]
    buffer, ends = encode_targets(given_, names, starts, 2)
    stops = ends.tolist()
    values = [buffer[start:end] for start, end in pairwise(stops)]
    expected = [
        StreamsGroupTargetAssignmentMemberValue(
            active_tasks=tuple(
                TargetTaskIds(subtopology_id=name, partitions=indexes) for name, indexes in active
            ),
            standby_tasks=tuple(
                TargetTaskIds(subtopology_id=name, partitions=indexes) for name, indexes in standby
            ),
            warmup_tasks=(),
        )
        for active, standby in (
            ([("a", (0,)), ("b" * 200, (0,))], []),
            ([("a", (1,))], [("a", (0,)), ("b" * 200, (0,))]),
        )
    ]
    assert values == [encode_value(KEY, each) for each in expected]
    numbers = SubtopologyNumbers()
    assert [write_target(read_target(each, numbers), numbers) for each in values] == values
    active, standby_starts, standbys = decode_targets(
        enumerate(values), {name: n for n, name in enumerate(names)}, starts
    )
    assert active.tolist() == given_.active.tolist()
    assert standby_starts.tolist() == given_.standby_starts.tolist()
    assert standbys.tolist() == given_.standbys.tolist()


# --- runs


def task_of(run: int, base: int | None, changes: GroupChanges, tasks: int = 4) -> ComputeAssignment:
    return ComputeAssignment(
        group_id="g",
        run=run,
        assignor="sticky",
        base_run=base,
        changes=changes,
        is_shared=True,
        tasks=TaskSettings((SubtopologyRow("s", tasks, is_stateful=True),), 1),
    )


def row(member_id: str, process_id: str = "") -> TaskMemberRow:
    return TaskMemberRow(member_id, None, None, 1, process_id or f"p-{member_id}")


def held(answer: object) -> dict[str, tuple[int, ...]]:
    """Return the active tasks in the answer, by member."""
    assert isinstance(answer, AssignmentComputed)
    numbers = SubtopologyNumbers()
    return {
        member_id: tuple(sorted(each for each in read_target(value, numbers) if each < 1 << 60))
        for member_id, value in answer.members
    }


def test_a_worker_caches_a_streams_group_and_answers_changes() -> None:
    worker = Executor(lambda: 0.0)
    first = worker.run(task_of(1, None, GroupChanges(members=(row("a"), row("b")))))
    assert held(first) == {"a": (0, 2), "b": (1, 3)}
    same = worker.run(task_of(2, 1, GroupChanges()))
    assert held(same) == {}
    replaced = worker.run(task_of(3, 2, GroupChanges(gone=(("b", "c"),), members=(row("c"),))))
    assert held(replaced) == {}  # the successor has its target already
    joined = worker.run(task_of(4, 3, GroupChanges(members=(row("d"),))))
    assert {"d"} <= held(joined).keys()
    left = worker.run(task_of(5, 4, GroupChanges(gone=(("d", None), ("a", None)))))
    assert held(left) == {"c": (0, 1, 2, 3)}
    lost = worker.run(task_of(9, 8, GroupChanges()))
    assert getattr(lost, "needs_whole", False)


def test_a_new_worker_continues_from_the_record_values() -> None:
    worker = Executor(lambda: 0.0)
    first = worker.run(task_of(1, None, GroupChanges(members=(row("a"), row("b")))))
    assert isinstance(first, AssignmentComputed)
    targets = tuple(first.members)
    whole = GroupChanges(members=(row("b"), row("a")), targets=targets)
    again = Executor(lambda: 0.0).run(task_of(7, None, whole))
    assert held(again) == {}
    grown = Executor(lambda: 0.0).run(task_of(7, None, whole, tasks=6))
    assert held(grown) == {"a": (0, 2, 4), "b": (1, 3, 5)}


def test_sticky_is_the_assignor_of_this_name() -> None:
    assert isinstance(registry.assignor("sticky"), StickyTaskAssignor)
    empty = registry.assign_tasks("sticky", spec_of((0,), (0,)))
    assert len(empty.active) == 0
