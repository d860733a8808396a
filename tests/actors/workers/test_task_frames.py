from hypothesis import given
from hypothesis import strategies as st

from actors.workers.task_frames import (
    RunTiming,
    pack_answer,
    read_answer,
    read_context,
    read_task,
    task_parts,
)
from protocol.groups.effects import (
    AssignmentComputed,
    AssignmentFailed,
    ComputeAssignment,
    GroupChanges,
    MemberRow,
    RegexesResolved,
    ResolveRegexes,
    SubtopologyRow,
    TaskMemberRow,
    TaskSettings,
)
from protocol.groups.topic_row import TopicRow

names = st.text(max_size=12)
topic_rows = st.builds(
    TopicRow,
    st.binary(min_size=16, max_size=16),
    names,
    st.integers(0, 1000),
    st.lists(st.lists(names, max_size=3).map(tuple), max_size=3).map(tuple),
    st.none()
    | st.integers(0, 4).map(lambda count: tuple(range(count)))
    | st.frozensets(st.integers(0, 9)).map(sorted).map(tuple),
)
member_rows = st.builds(
    MemberRow, names, st.none() | names, st.none() | names, st.integers(0, 2**31)
)


def some(of: st.SearchStrategy) -> st.SearchStrategy:  # type: ignore[type-arg]
    return st.lists(of, max_size=5).map(tuple)


task_member_rows = st.builds(
    TaskMemberRow,
    *(names, st.none() | names, st.none() | names, st.integers(0, 2**31)),
    process_id=names,
    tags=some(st.tuples(names, names)),
)
task_settings = st.builds(
    TaskSettings,
    some(st.builds(SubtopologyRow, names, st.integers(0, 1000), st.booleans())),
    st.integers(0, 9),
    some(names),
)


def runs_of(rows: st.SearchStrategy, tasks: st.SearchStrategy) -> st.SearchStrategy:  # type: ignore[type-arg]
    changes = st.builds(
        GroupChanges,
        topics=st.none() | some(topic_rows),
        subscriptions=st.dictionaries(st.integers(0, 2**40), st.frozensets(names), max_size=4),
        gone=some(st.tuples(names, st.none() | names)),
        members=some(rows),
        dropped_subscriptions=some(st.integers(0, 2**31)),
        targets=some(st.tuples(names, st.binary(max_size=20))),
        earlier=some(st.tuples(names, st.binary(max_size=20))),
    )
    return st.builds(
        ComputeAssignment,
        group_id=names,
        run=st.integers(0, 2**31),
        assignor=names,
        base_run=st.none() | st.integers(0, 2**31),
        changes=changes,
        answer_whole=st.booleans(),
        is_shared=st.booleans(),
        tasks=tasks,
    )


runs = runs_of(member_rows, st.none()) | runs_of(task_member_rows, task_settings)


@given(runs)
def test_a_run_is_read_as_it_was_packed(task: ComputeAssignment) -> None:
    assert read_task(list(task_parts(task))) == task


@given(runs)
def test_the_context_of_a_trace_is_beside_the_task(task: ComputeAssignment) -> None:
    """Also a worker that knows no contexts reads the task."""
    parts = list(task_parts(task, "00-1-2-01"))
    assert read_context(parts) == "00-1-2-01"
    assert read_task(parts) == task
    assert read_context(list(task_parts(task))) == ""


def test_a_large_group_is_packed_in_parts_of_bounded_size() -> None:
    rows = tuple(MemberRow(f"m-{number}", None, None, 0) for number in range(11_000))
    task = ComputeAssignment(
        group_id="g",
        run=7,
        assignor="uniform",
        base_run=None,
        changes=GroupChanges(topics=(), subscriptions={0: frozenset()}, members=rows),
    )
    parts = list(task_parts(task))
    assert len(parts) > 10
    assert max(map(len, parts)) < 32 * 1024
    assert read_task(parts) == task


def test_a_small_group_is_packed_in_one_part() -> None:
    rows = tuple(MemberRow(f"group-member-{number}", None, None, 0) for number in range(100))
    task = ComputeAssignment(
        group_id="g",
        run=7,
        assignor="uniform",
        base_run=None,
        changes=GroupChanges(
            topics=(TopicRow(bytes(16), "t", 100),),
            subscriptions={0: frozenset({"t"})},
            members=rows,
            targets=tuple((row.member_id, bytes(30)) for row in rows),
        ),
    )
    (part,) = task_parts(task)  # each is a call of the worker
    assert read_task([part]) == task


def test_regular_expressions_are_read_as_they_were_packed() -> None:
    topics = [f"t-{number}" for number in range(2_500)]
    task = ResolveRegexes(group_id="g", version=3, regexes=("a.*", "b"), topics=topics)
    assert read_task(list(task_parts(task))) == task


@given(some(st.tuples(names, st.binary(max_size=20))))
def test_the_members_are_cut_out_of_an_answer_as_they_were(
    members: tuple[tuple[str, bytes], ...],
) -> None:
    answer = AssignmentComputed(
        group_id="g", run=4, members=members, partitions_moved=9, assignor_ms=0.5
    )
    read, timing = read_answer(pack_answer(answer, RunTiming(1.0, 2.0)))
    assert isinstance(read, AssignmentComputed)
    assert tuple(read.members) == members
    assert list(read.members[1:]) == list(members[1:])
    assert (read.run, read.partitions_moved, read.assignor_ms) == (4, 9, 0.5)
    assert timing == RunTiming(1.0, 2.0)


def test_other_answers_are_read_as_they_were_packed() -> None:
    for answer in (
        AssignmentFailed(group_id="g", run=2, reason="so it is", needs_whole=True),
        RegexesResolved(group_id="g", version=1, topics={"a.*": ("a", "ab"), "c": ()}),
        RegexesResolved(group_id="g", version=1, topics=None),
    ):
        assert read_answer(pack_answer(answer, RunTiming(0.0, 0.0)))[0] == answer
