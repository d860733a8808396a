"""Assignments in which a partition has several owners: checked, written, told by what changed."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from protocol.assignors.executor import Executor
from protocol.assignors.registry import run_checked
from protocol.assignors.spec import (
    AssignorError,
    GroupAssignment,
    GroupSpec,
    SharedAssignment,
)
from protocol.groups.effects import AssignmentFailed, ComputeAssignment, GroupChanges, MemberRow
from protocol.groups.modern.assignment_records import read_target
from protocol.groups.topic_numbers import INDEX_MASK, TopicNumbers
from protocol.groups.topic_row import TopicRow

TOPIC = TopicRow(b"t" * 16, "t", 3)


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


SPEC = GroupSpec(
    partition_starts=ints(0, 3, 5),
    class_starts=ints(0, 1, 3),
    class_topics=ints(0, 0, 1),
    member_class=ints(0, 1),
    previous_owner=ints(-1, -1, -1, -1, -1),
)


def checked(starts: Any, partitions: Any) -> Any:
    shared = SharedAssignment(starts, partitions)
    return run_checked(lambda spec: shared, "x", SPEC, is_shared=True)


def test_partitions_may_be_given_to_several_members() -> None:
    shared = checked(ints(0, 2, 5), ints(0, 1, 0, 1, 4))
    assert shared.partitions.tolist() == [0, 1, 0, 1, 4]


@pytest.mark.parametrize(
    ("starts", "partitions", "sentence"),
    [
        (ints(0, 1), ints(0), "no row for each of the members"),
        (ints(0, 1, 3), ints(0), "no row for each of the members"),
        (ints(0, 2, 1), ints(0), "rows that run backwards"),
        (ints(0, 1, 1), ints(5), "a partition that there is not"),
        (ints(0, 1, 1), ints(-1), "a partition that there is not"),
        (ints(0, 2, 2), ints(1, 1), "partitions that do not ascend"),
        (ints(0, 1, 1), ints(3), "a member what it does not subscribe to"),
        ("x", ints(), "no arrays of partitions"),
    ],
)
def test_what_is_no_assignment_is_refused(starts: Any, partitions: Any, sentence: str) -> None:
    with pytest.raises(AssignorError, match=sentence):
        checked(starts, partitions)


class Spread:
    """Gives every member all partitions but the one of its own place."""

    name = "spread"

    def assign(self, spec: GroupSpec) -> SharedAssignment:
        rows = [
            [each for each in range(spec.partition_count) if each != member]
            for member in range(spec.member_count)
        ]
        starts = np.cumsum([0, *map(len, rows)])
        return SharedAssignment(starts.astype(np.int32), ints(*[p for row in rows for p in row]))


def task(run: int, base: int | None, changes: GroupChanges, **more: Any) -> ComputeAssignment:
    return ComputeAssignment(
        group_id="g",
        run=run,
        assignor="spread",
        base_run=base,
        changes=changes,
        **{"is_shared": True, **more},
    )


def told(answer: Any) -> dict[str, list[int]]:
    numbers = TopicNumbers()
    return {
        member_id: sorted(place & INDEX_MASK for place in read_target(bytes(value), numbers))
        for member_id, value in answer.members
    }


def test_a_run_tells_the_members_whose_target_is_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("protocol.assignors.registry.assignor", lambda name: Spread())
    executor = Executor(lambda: 0.0)
    rows = tuple(MemberRow(each, None, None, 1) for each in "ab")
    whole = GroupChanges(topics=(TOPIC,), subscriptions={1: frozenset("t")}, members=rows)
    first: Any = executor.run(task(1, None, whole))
    assert told(first) == {"a": [1, 2], "b": [0, 2]}
    joins = GroupChanges(topics=None, members=(MemberRow("c", None, None, 1),))
    assert told(executor.run(task(2, 1, joins))) == {"c": [0, 1]}
    replaced = GroupChanges(topics=None, gone=(("c", "d"),))
    assert told(executor.run(task(3, 2, replaced))) == {}
    assert told(executor.run(task(4, 3, GroupChanges(topics=None), answer_whole=True))).keys() == {
        *"abd"
    }
    another = Executor(lambda: 0.0)  # it learns from the log what was told before
    again = GroupChanges(
        topics=(TOPIC,),
        subscriptions={1: frozenset("t")},
        members=rows,
        targets=tuple((each, bytes(value)) for each, value in first.members),
    )
    assert told(another.run(task(5, None, again))) == {}


@pytest.mark.parametrize(
    ("is_shared", "outcome", "reason"),
    [
        (False, SharedAssignment(ints(0, 3), ints(0, 1, 2)), "gave no array of 3 owners"),
        (True, GroupAssignment(ints(0, 0, 0)), "gave no partitions of each of the members"),
        (True, None, "gave no partitions of each of the members"),
    ],
)
def test_an_assignment_of_the_other_form_fails_the_run(
    is_shared: bool, outcome: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a partition of a consumer group would have two owners, or a share group none."""
    assignor = SimpleNamespace(name="spread", assign=lambda spec: outcome)
    monkeypatch.setattr("protocol.assignors.registry.assignor", lambda name: assignor)
    whole = GroupChanges(
        topics=(TOPIC,),
        subscriptions={1: frozenset("t")},
        members=(MemberRow("a", None, None, 1),),
    )
    answer = Executor(lambda: 0.0).run(task(1, None, whole, is_shared=is_shared))
    assert answer == AssignmentFailed(group_id="g", run=1, reason=f"the assignor 'spread' {reason}")
