"""Custom assignors of share and streams groups, from their entry point to the members.

What a bad one gives fails its run, and the group keeps what it had (consumer groups: test_registry,
and tests/protocol/groups/consumer/test_assignor_runs.py; real workers that hang or die:
tests/actors/workers/test_assignor_workers.py).
"""

from typing import Any

import numpy as np
import pytest

from protocol.assignors.executor import Executor
from protocol.assignors.spec import GroupAssignment, GroupSpec, SharedAssignment
from protocol.assignors.tasks.spec import TaskAssignment, TaskGroupSpec
from protocol.groups.effects import (
    AssignmentComputed,
    AssignmentFailed,
    ComputeAssignment,
    GroupChanges,
    MemberRow,
    SubtopologyRow,
    TaskMemberRow,
    TaskSettings,
)
from protocol.groups.topic_row import TopicRow
from tests.protocol.groups.share.share_talk import ShareTalk
from tests.protocol.groups.streams.streams_talk import StreamsTalk

NAME = "custom"
TOPIC = TopicRow(b"t" * 16, "t", 3)
TASKS = TaskSettings((SubtopologyRow("0", 3, is_stateful=True),), 1)
INT64 = np.array([1 << 40, 0, 0])


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


class All:
    """Gives every member of a share group all partitions."""

    name = NAME

    def assign(self, spec: GroupSpec) -> SharedAssignment:
        everything = np.tile(np.arange(spec.partition_count, dtype=np.int32), spec.member_count)
        starts = np.arange(spec.member_count + 1, dtype=np.int32) * spec.partition_count
        return SharedAssignment(starts, everything)


class Last:
    """Gives the last member of a streams group all tasks."""

    name = NAME

    def assign(self, spec: TaskGroupSpec) -> TaskAssignment:
        active = np.full(spec.task_count, spec.member_count - 1, np.int32)
        return TaskAssignment(active, np.zeros(spec.task_count + 1, np.int32), ints())


class Gives:
    """Gives or raises what it is told to."""

    name = NAME

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    def assign(self, spec: Any) -> Any:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


class Raising:
    """A result whose fields cannot be read."""

    @property
    def active(self) -> Any:
        raise LookupError("active")


def share_task() -> ComputeAssignment:
    rows = tuple(MemberRow(each, None, None, 1) for each in "ab")
    whole = GroupChanges(topics=(TOPIC,), subscriptions={1: frozenset("t")}, members=rows)
    return ComputeAssignment(
        group_id="g", run=1, assignor=NAME, base_run=None, changes=whole, is_shared=True
    )


def streams_task() -> ComputeAssignment:
    rows = tuple(TaskMemberRow(each, None, None, 0, f"p-{each}", ()) for each in "ab")
    whole = GroupChanges(members=rows)
    return ComputeAssignment(
        group_id="g", run=1, assignor=NAME, base_run=None, changes=whole, tasks=TASKS
    )


def shared(starts: Any, partitions: Any) -> SharedAssignment:
    return SharedAssignment(starts, partitions)


def tasks(active: Any, starts: Any = None, standbys: Any = None) -> TaskAssignment:
    return TaskAssignment(
        active,
        ints(0, 0, 0, 0) if starts is None else starts,
        ints() if standbys is None else standbys,
    )


@pytest.mark.parametrize(("task", "plug_in"), [(share_task, All), (streams_task, Last)])
def test_a_custom_assignor_of_each_type_runs_in_a_worker(
    installed: Any, task: Any, plug_in: Any
) -> None:
    installed(plug_in)
    answer = Executor(lambda: 0.0).run(task())
    assert isinstance(answer, AssignmentComputed)
    assert [member_id for member_id, _ in answer.members] == ["a", "b"]


BAD_SHARES = [
    (GroupAssignment(ints(0, 0, 0)), "gave no partitions of each of the members"),
    (shared(ints(0, 1), ints(0)), "gave no row for each of the members"),  # a member less
    (shared(ints(0, 1, 1, 2), ints(0, 1)), "gave no row for each of the members"),  # one more
    (shared(ints(0, 2, 2), ints(1, 1)), "gave partitions that do not ascend"),  # twice
    (shared(ints(0, 1, 1), ints(3)), "gave a partition that there is not"),
    (shared([0, 1, 1], [1 << 40]), "gave no arrays of partitions"),
    (shared(ints(0, 3, 3), INT64), "gave no arrays of partitions"),  # not 0, as its low bits are
    (shared(ints(0, 1, 1), np.array([0.5])), "gave no arrays of partitions"),
    (RuntimeError("no luck"), "failed: RuntimeError: no luck"),
    (SystemExit(3), "failed: SystemExit: 3"),
    (MemoryError(), "failed: MemoryError"),
]
BAD_TASKS = [
    (None, "gave no arrays of members"),
    (Raising(), "gave no arrays of members"),
    (tasks(ints(0, 2, 0)), "a task has no member, or one that is none of the 2"),
    (tasks(ints(0, -1, 0)), "a task has no member, or one that is none of the 2"),
    (tasks(ints(0, 0)), "it does not have a row for each of 3 tasks"),
    (tasks(ints(0, 0, 0), ints(0, 1, 1, 1), ints(0)), "a process has a task twice"),
    (tasks(ints(0, 0, 0), ints(0, 2, 1, 2), ints(1, 1)), "its rows of standbys run backwards"),
    (tasks([1 << 40, 0, 0]), "gave no arrays of members"),
    (tasks(INT64), "gave no arrays of members"),
    (tasks(np.zeros(3)), "gave no arrays of members"),
    (RuntimeError("no luck"), "failed: RuntimeError: no luck"),
    (SystemExit(3), "failed: SystemExit: 3"),
]


@pytest.mark.parametrize(
    ("task", "outcome", "said"),
    [
        *((share_task, *each) for each in BAD_SHARES),
        *((streams_task, *each) for each in BAD_TASKS),
    ],
)
def test_what_a_bad_one_gives_fails_its_run(
    installed: Any, task: Any, outcome: Any, said: str
) -> None:
    installed(Gives(outcome))
    answer = Executor(lambda: 0.0).run(task())
    assert isinstance(answer, AssignmentFailed)
    assert said in answer.reason
    assert not answer.retriable


class Fails:
    """Works until it is told to fail."""

    name = NAME

    def __init__(self, good: Any) -> None:
        self.good, self.is_broken = good, False

    def assign(self, spec: Any) -> Any:
        if self.is_broken:
            raise RuntimeError("broken")
        return self.good.assign(spec)


def test_a_share_group_whose_custom_assignor_fails_keeps_its_target(installed: Any) -> None:
    plug_in = Fails(All())
    installed(plug_in)
    talk = ShareTalk(in_place=False, overrides={"group.share.assignors": NAME})
    talk.join("A")
    talk.converge("A")
    talk.join("B")
    talk.converge("A", "B")
    assert talk.owned("A", "B") == [4, 4]
    plug_in.is_broken = True
    talk.join("C")
    talk.converge("A", "B", "C")
    assert talk.owned("A", "B", "C") == [4, 4, 0]
    plug_in.is_broken = False
    talk.join("D")
    talk.converge("A", "B", "C", "D")
    assert talk.owned("A", "B", "C", "D") == [4, 4, 4, 4]


def tasks_of(talk: StreamsTalk) -> dict[str, int]:
    """How many active tasks each member has by the log."""
    return {
        each.member_id: sum(len(task.partitions) for task in each.target_assignment.active_tasks)
        for each in talk.describe().members
    }


def test_a_streams_group_whose_custom_assignor_fails_keeps_its_target(installed: Any) -> None:
    plug_in = Fails(Last())
    installed(plug_in)
    talk = StreamsTalk(is_offloaded=True, overrides={"group.streams.assignors": NAME})
    talk.join("A")
    talk.work()
    assert tasks_of(talk) == {"A": 3}
    plug_in.is_broken = True
    talk.join("B")
    talk.work()
    assert tasks_of(talk) == {"A": 3, "B": 0}
    plug_in.is_broken = False
    talk.join("C")
    talk.work()
    assert tasks_of(talk) == {"A": 0, "B": 0, "C": 3}
