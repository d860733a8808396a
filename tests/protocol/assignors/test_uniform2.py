"""Uniform2 (KAFKA-21214's aim): each topic within one, then totals, then few moves, then racks."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.assignors.registry import assign, why_invalid
from protocol.assignors.spec import NOBODY, GroupSpec, Int32s
from protocol.assignors.uniform2 import Uniform2Assignor
from tests.protocol.assignors.groups import (
    array,
    check_valid,
    loads,
    moved,
    owning,
    spec_of,
    specs,
    specs_with_racks,
    squares,
    topic_of,
    topics_of,
)

UNIFORM2 = Uniform2Assignor()
ALL = [[0, 1]]


def owners(spec: GroupSpec) -> Int32s:
    return UNIFORM2.assign(spec).owner


def subscribers_of(spec: GroupSpec, topic: int) -> list[int]:
    return [m for m in range(spec.member_count) if topic in topics_of(spec, m)]


def check_topics_are_even(spec: GroupSpec, owner: Int32s) -> None:
    """The subscribers of a topic differ by one of its partitions at most."""
    topics = topic_of(spec)
    for topic in range(spec.topic_count):
        counts = [
            int(((owner == member) & (topics == topic)).sum())
            for member in subscribers_of(spec, topic)
        ]
        assert max(counts, default=0) - min(counts, default=0) <= 1


# The cases in which Kafka tests its uniform assignor, with what each topic asks for in addition.
@pytest.mark.parametrize(
    ("sizes", "classes", "member_class", "previous", "expected"),
    [
        pytest.param([], [[]], [0], None, [], id="no topics"),
        pytest.param([2], [[]], [0], None, [-1, -1], id="nobody subscribes"),
        pytest.param([3, 2], ALL, [0], None, [0] * 5, id="one member has everything"),
        pytest.param([1], [[0]], [0, 0, 0], None, [0], id="more members than partitions"),
        pytest.param([2, 2], ALL, [0, 0], None, [0, 1] * 2, id="one partition of each topic each"),
        pytest.param([1, 1], ALL, [0, 0], None, [0, 1], id="extras of topics go to different ones"),
        pytest.param([3, 3], ALL, [0, 0], None, [0, 0, 1, 0, 1, 1], id="odd topics even out"),
        pytest.param(
            [3, 3],
            ALL,
            [0, 0],
            [0, 0, 0, 1, 1, 1],
            [0, 0, 1, 1, 1, 0],
            id="totals even, topics not",
        ),
        pytest.param([2, 2], ALL, [0, 0], [1, 0, 0, 1], [1, 0, 0, 1], id="nothing to do"),
        pytest.param([2, 2], ALL, [0, 0, 0], [1, 0, 0, 1], [1, 2, 0, 1], id="a member joined"),
        pytest.param([2, 2], ALL, [0], [0, -1, -1, 0], [0] * 4, id="a member left"),
        pytest.param([4, 2], ALL, [0, 0], [0, 1, -1, -1, 0, 1], [0, 1, 0, 1, 0, 1], id="growth"),
        pytest.param(
            [3, 3], [[0], [1]], [0, 0, 1], None, [0, 0, 1, 2, 2, 2], id="disjoint subscriptions"
        ),
        pytest.param(
            [2, 3], [[0, 1], [1]], [0, 1], None, [0, 0, 0, 1, 1], id="who has less gets the extra"
        ),
        pytest.param(
            [2, 2], [[0], [0, 1]], [0, 1], [1, 1, 0, 0], [1, 0, 1, 1], id="a member unsubscribed"
        ),
        pytest.param(
            [1, 1, 2], [[0, 2], [0, 1], [1]], [0, 1, 2], [0, 1, 0, 0], [1, 2, 0, 0], id="a chain"
        ),
    ],
)
def test_cases(
    sizes: list[int],
    classes: list[list[int]],
    member_class: list[int],
    previous: list[int] | None,
    expected: list[int],
) -> None:
    assert owners(spec_of(sizes, classes, member_class, previous)).tolist() == expected


@given(specs(members_min=0))
def test_each_topic_is_even_within_one_partition(spec: GroupSpec) -> None:
    owner = owners(spec)
    check_valid(spec, owner)
    check_topics_are_even(spec, owner)
    assert why_invalid(spec, owner) is None


@given(specs(same=True))
def test_members_with_the_same_subscriptions_differ_by_one_partition_in_total(
    spec: GroupSpec,
) -> None:
    assert np.ptp(loads(spec, owners(spec))) <= 1


@given(specs())
def test_an_unchanged_group_moves_nothing(spec: GroupSpec) -> None:
    owner = owners(spec)
    assert owners(owning(spec, owner)).tolist() == owner.tolist()


@given(specs())
def test_a_subscriber_with_two_partitions_less_has_an_extra_of_each_topic_they_share(
    spec: GroupSpec,
) -> None:
    owner = owners(spec)
    load, topics = loads(spec, owner), topic_of(spec)
    for topic in range(spec.topic_count):
        got = {
            m: int(((owner == m) & (topics == topic)).sum()) for m in subscribers_of(spec, topic)
        }
        for full, empty in itertools.permutations(got, 2):
            if load[full] - load[empty] >= 2:
                assert got[full] <= got[empty]


def best_of(spec: GroupSpec) -> tuple[int, int]:
    """The least sum of squares of totals, and the most partitions that can stay with it."""
    topics = topic_of(spec)
    choices: list[list[tuple[dict[int, int], int]]] = []
    for topic in range(spec.topic_count):
        subscribers = subscribers_of(spec, topic)
        if not subscribers:
            continue
        before = spec.previous_owner[topics == topic].tolist()
        all_get, extras = divmod(len(before), len(subscribers))
        choices.append([])
        for more in itertools.combinations(subscribers, extras):
            got = {member: all_get + (member in more) for member in subscribers}
            stay = sum(min(before.count(member), count) for member, count in got.items())
            choices[-1].append((got, stay))
    best = None
    for choice in itertools.product(*choices):
        load = [sum(got.get(m, 0) for got, _ in choice) for m in range(spec.member_count)]
        worth = (sum(each * each for each in load), -sum(stay for _, stay in choice))
        best = worth if best is None else min(best, worth)
    assert best is not None
    return best[0], -best[1]


def small_groups(count: int) -> list[GroupSpec]:
    draw = random.Random(21214)
    found = []
    for _ in range(count):
        topics, members = draw.randint(1, 4), draw.randint(1, 4)
        sizes = [draw.randint(0, 9) for _ in range(topics)]
        classes = [sorted(draw.sample(range(topics), draw.randint(1, topics))) for _ in range(3)]
        if draw.random() < 0.4:
            classes = [list(range(topics))]
        of_members = [draw.randrange(len(classes)) for _ in range(members)]
        previous = [draw.randint(NOBODY, members - 1) for _ in range(sum(sizes))]
        found.append(spec_of(sizes, classes, of_members, previous))
    return found


def test_totals_are_as_even_as_possible_and_hardly_ever_one_partition_too_many_moves() -> None:
    needless = 0
    groups = small_groups(300)
    for spec in groups:
        owner = owners(spec)
        least, stay = best_of(spec)
        assert squares(spec, owner) == least
        stayed = int(((owner == spec.previous_owner) & (owner != NOBODY)).sum())
        needless += stay - stayed
    assert needless <= len(groups) // 100


@pytest.mark.parametrize("members", [7, 20])
def test_joins_and_leaves_move_only_what_the_new_totals_ask_for(members: int) -> None:
    sizes = [5, 8, 3, 9, 4, 6]
    every = [list(range(len(sizes)))]
    total = sum(sizes)
    spec = spec_of(sizes, every, [0] * members, None)
    owner = owners(spec)
    joined = spec_of(sizes, every, [0] * (members + 1), owner.tolist())
    after = owners(joined)
    check_topics_are_even(joined, after)
    assert moved(joined, after) <= total // members + len(sizes)
    gone = np.where(after == 0, NOBODY, after - 1)
    left = spec_of(sizes, every, [0] * members, gone.tolist())
    check_topics_are_even(left, owners(left))
    assert moved(left, owners(left)) <= len(sizes)


def test_it_is_chosen_by_name() -> None:
    spec = spec_of([2, 2], ALL, [0, 0], None)
    assert assign("uniform2", spec).owner.tolist() == [0, 1, 0, 1]  # type: ignore[union-attr]


# Racks: among assignments that are equally even, one with many partitions near their owners.


def with_racks(spec: GroupSpec, members: list[int], partitions: list[list[int]]) -> GroupSpec:
    return replace(
        spec,
        member_rack=array(*members),
        rack_starts=array(0, *itertools.accumulate(len(each) for each in partitions)),
        partition_racks=array(*(rack for each in partitions for rack in each)),
    )


def near(spec: GroupSpec, owner: Int32s) -> list[bool]:
    said = []
    for partition, member in enumerate(owner.tolist()):
        row = slice(spec.rack_starts[partition], spec.rack_starts[partition + 1])
        said.append(member != NOBODY and spec.member_rack[member] in spec.partition_racks[row])
    return said


@pytest.mark.parametrize(
    ("sizes", "members", "racks", "previous", "expected"),
    [
        pytest.param([2], [0, 1], [[1], [0]], None, [1, 0], id="each to its rack"),
        pytest.param([2], [0, 1], [[1], [0]], [0, 1], [1, 0], id="a rack is worth a move"),
        pytest.param([2], [0, 1], [[0, 1], [0, 1]], [1, 0], [1, 0], id="no move without use"),
        pytest.param([2], [0, 1], [[0], [0]], None, [0, 1], id="even before near"),
        pytest.param([2], [0, NOBODY], [[1], [0]], None, [1, 0], id="no rack gets the rest"),
        pytest.param([1], [0, 1, 2], [[2]], None, [2], id="the extra goes where it is near"),
        pytest.param([1], [0, 1, 2], [[2]], [0], [2], id="the extra moves to where it is near"),
        pytest.param([1], [0, 1], [[7]], [1], [1], id="a rack without members"),
        pytest.param(
            [3], [0, 1, 2], [[0, 1], [0], [1, 2]], None, [1, 0, 2], id="along an augmenting path"
        ),
    ],
)
def test_rack_cases(
    sizes: list[int],
    members: list[int],
    racks: list[list[int]],
    previous: list[int] | None,
    expected: list[int],
) -> None:
    group = spec_of(sizes, [list(range(len(sizes)))], [0] * len(members), previous)
    assert owners(with_racks(group, members, racks)).tolist() == expected


@given(specs_with_racks())
def test_racks_cost_no_balance(spec: GroupSpec) -> None:
    owner = owners(spec)
    check_valid(spec, owner)
    check_topics_are_even(spec, owner)
    without = owners(replace(spec, member_rack=array()))
    assert squares(spec, owner) == squares(spec, without)


@given(specs_with_racks())
def test_an_unchanged_group_with_racks_moves_nothing(spec: GroupSpec) -> None:
    owner = owners(spec)
    assert owners(owning(spec, owner)).tolist() == owner.tolist()


@given(specs_with_racks())
def test_no_exchange_within_a_topic_brings_more_partitions_near(spec: GroupSpec) -> None:
    owner = owners(spec)
    topics, have = topic_of(spec), sum(near(spec, owner))
    for one, other in itertools.combinations(range(spec.partition_count), 2):
        if topics[one] == topics[other] and owner[one] != NOBODY:
            swapped = owner.copy()
            swapped[[one, other]] = owner[[other, one]]
            assert sum(near(spec, swapped)) <= have


@given(specs(owns=True), st.data())
def test_members_without_racks_are_assigned_as_without_rack_awareness(
    spec: GroupSpec, data: st.DataObject
) -> None:
    racks = [sorted(data.draw(st.sets(st.integers(0, 2)))) for _ in range(spec.partition_count)]
    nowhere = with_racks(spec, [NOBODY] * spec.member_count, racks)
    assert owners(nowhere).tolist() == owners(spec).tolist()


def test_many_racks_bring_most_partitions_near() -> None:
    racks, draw = 5, random.Random(7)
    spec = spec_of([40] * 6, [list(range(6))], [0] * 50, None)
    partitions = [[draw.randrange(racks)] for _ in range(240)]
    aware = with_racks(spec, [member % racks for member in range(50)], partitions)
    assert sum(near(aware, owners(aware))) > 220
    assert sum(near(aware, owners(spec))) < 80
