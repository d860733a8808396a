"""Kafka's ``simple`` assignor (KIP-932): balance, stickiness, several owners, assignable only."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.assignors.executor import Executor
from protocol.assignors.registry import assign
from protocol.assignors.spec import AssignorError, GroupSpec, SharedAssignment
from protocol.groups.effects import ComputeAssignment, GroupChanges, MemberRow
from protocol.groups.modern.assignment_records import read_target
from protocol.groups.topic_numbers import INDEX_MASK, TopicNumbers
from protocol.groups.topic_row import TopicRow
from tests.effort import examples


def ints(values: Any) -> Any:
    return np.array(values, np.int32)


def spec(
    topics: list[int],
    subscriptions: list[list[int]],
    before: list[list[int]] | None = None,
    assignable: list[bool] | None = None,
) -> GroupSpec:
    """Build a group: the partitions of each topic, the topics of each member, what each had."""
    rows = [] if before is None else before
    return GroupSpec(
        partition_starts=ints([0, *np.cumsum(topics)]),
        class_starts=ints([0, *np.cumsum([len(each) for each in subscriptions])]),
        class_topics=ints([topic for each in subscriptions for topic in each]),
        member_class=ints(range(len(subscriptions))),
        previous_owner=np.full(sum(topics), -1, np.int32),
        is_assignable=np.array([] if assignable is None else assignable, np.bool_),
        previous_starts=ints([0, *np.cumsum([len(each) for each in rows])] if rows else []),
        previous_partitions=ints([each for row in rows for each in row]),
    )


def rows_of(assignment: Any) -> list[list[int]]:
    assert isinstance(assignment, SharedAssignment)
    starts = assignment.member_starts.tolist()
    partitions = assignment.partitions.tolist()
    return [partitions[first:end] for first, end in pairwise(starts)]


def simple(*arguments: Any, **named: Any) -> list[list[int]]:
    return rows_of(assign("simple", spec(*arguments, **named), is_shared=True))


@pytest.mark.parametrize(
    ("topics", "subscriptions", "before", "expected"),
    [
        ([3], [[0]], None, [[0, 1, 2]]),
        ([3], [[0], [0]], None, [[0, 2], [1]]),
        ([2], [[0], [0], [0]], None, [[0, 1], [0], [1]]),  # fewer partitions than members
        ([1], [[0], [0], [0]], None, [[0], [0], [0]]),
        ([3], [[0], [0]], [[1, 2], [0]], [[1, 2], [0]]),  # all keep what they have
        ([3], [[0], [0]], [[0], [1, 2]], [[0], [1, 2]]),  # also where the second has more
        ([4], [[0], [0]], [[0, 1, 2, 3], []], [[0, 1], [2, 3]]),
        ([2], [[0], [0]], [[0, 1], [0, 1]], [[0], [1]]),  # no longer shared
        ([2, 2], [[0], [1]], None, [[0, 1], [2, 3]]),
        ([2, 1], [[0, 1], [0]], None, [[0, 2], [1]]),  # topic after topic
        ([2], [[0], []], None, [[0, 1], []]),
        ([0], [[0]], None, [[]]),
        ([2], [[]], [[0]], [[]]),  # no longer subscribed
    ],
)
def test_members_and_partitions_are_balanced(
    topics: Any, subscriptions: Any, before: Any, expected: list[list[int]]
) -> None:
    assert simple(topics, subscriptions, before) == expected


def test_only_assignable_partitions_are_given_and_kept() -> None:
    assert simple([3], [[0]], [[0, 1]], [False, True, True]) == [[1, 2]]
    assert simple([2], [[0]], assignable=[False, False]) == [[]]


def test_an_assignor_may_not_give_what_is_not_assignable(monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless:
        name = "careless"

        def assign(self, spec: GroupSpec) -> SharedAssignment:
            return SharedAssignment(ints([0, 1]), ints([0]))

    monkeypatch.setattr("protocol.assignors.registry.assignor", lambda name: Careless())
    with pytest.raises(AssignorError, match="a partition that nobody may have yet"):
        simple([1], [[0]], assignable=[False])


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[int], list[list[int]], list[list[int]], list[bool]]:
    topics = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    count = draw(st.integers(1, 9))
    same = draw(st.booleans())
    subsets = st.sets(st.integers(0, len(topics) - 1)).map(sorted)
    one = draw(subsets)
    subscriptions = [one if same else draw(subsets) for _ in range(count)]
    held = st.sets(st.integers(0, max(sum(topics) - 1, 0))) if sum(topics) else st.just(set())
    before = [sorted(draw(held)) for _ in range(count)]
    flags = draw(st.lists(st.booleans(), min_size=sum(topics), max_size=sum(topics)))
    return topics, subscriptions, before, flags


@settings(max_examples=examples(400))
@given(groups())
def test_the_assignment_is_complete_balanced_and_stays(
    group: tuple[list[int], list[list[int]], list[list[int]], list[bool]],
) -> None:
    topics, subscriptions, before, flags = group
    rows = simple(topics, subscriptions, before, flags)  # valid, or assign raises
    topic_of = [topic for topic, count in enumerate(topics) for _ in range(count)]
    owners = [sum(each in row for row in rows) for each in range(sum(topics))]
    is_same = len({tuple(each) for each in subscriptions}) == 1
    for topic in range(len(topics)):
        members = [each for each, names in enumerate(subscriptions) if topic in names]
        mine = [each for each, of in enumerate(topic_of) if of == topic and flags[each]]
        assert all(owners[each] > 0 for each in mine) or not members
        if mine and members and not is_same:
            counts = [sum(topic_of[each] == topic for each in rows[member]) for member in members]
            assert max(counts) - min(counts) <= 2
            assert min(counts) >= 1 or len(mine) < len(members) or max(counts) <= 1
    if is_same:
        sizes = [len(row) for row in rows]
        assert max(sizes) - min(sizes) <= 2
    again = simple(topics, subscriptions, rows, flags)
    assert all(set(row) <= set(later) for row, later in zip(rows, again, strict=True))


def test_a_worker_gives_a_member_what_it_had_before() -> None:
    executor = Executor(lambda: 0.0)

    def run(number: int, base: int | None, changes: GroupChanges) -> dict[str, list[int]]:
        answer: Any = executor.run(
            ComputeAssignment(
                group_id="g",
                run=number,
                assignor="simple",
                base_run=base,
                changes=changes,
                is_shared=True,
            )
        )
        numbers = TopicNumbers()
        return {
            member_id: sorted(place & INDEX_MASK for place in read_target(bytes(value), numbers))
            for member_id, value in answer.members
        }

    topic = TopicRow(b"t" * 16, "t", 4, assignable=(0, 1, 2))
    whole = GroupChanges(
        topics=(topic,),
        subscriptions={1: frozenset("t")},
        members=(MemberRow("b", None, None, 1),),
    )
    assert run(1, None, whole) == {"b": [0, 1, 2]}
    joins = GroupChanges(members=(MemberRow("a", None, None, 1),))
    assert run(2, 1, joins) == {"a": [2], "b": [0, 1]}
    more = GroupChanges(topics=(topic._replace(assignable=(0, 1, 2, 3)),))
    assert run(3, 2, more) == {"a": [2, 3]}
    fewer = GroupChanges(topics=(topic._replace(assignable=(1, 3)),))
    assert run(4, 3, fewer) == {"a": [3], "b": [1]}
