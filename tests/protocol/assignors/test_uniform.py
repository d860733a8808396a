"""The uniform assignor: valid, balanced, sticky, the same whenever it is asked."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.assignors.registry import why_invalid
from protocol.assignors.spec import NOBODY, AssignorError, GroupSpec
from protocol.assignors.uniform import UniformAssignor
from tests.protocol.assignors.groups import (
    array,
    check_valid,
    loads,
    moved,
    owning,
    spec_of,
    specs,
    topic_of,
    topics_of,
)

UNIFORM = UniformAssignor()


@given(specs(members_min=0))
def test_each_partition_of_a_subscribed_topic_has_one_owner_that_subscribes(
    spec: GroupSpec,
) -> None:
    owner = UNIFORM.assign(spec).owner
    check_valid(spec, owner)
    assert why_invalid(spec, owner) is None


@given(specs(same=True))
def test_members_with_the_same_subscriptions_differ_by_one_partition_at_most(
    spec: GroupSpec,
) -> None:
    assert np.ptp(loads(spec, UNIFORM.assign(spec).owner)) <= 1


@given(specs(same=True, owns=True))
def test_a_homogeneous_group_moves_no_more_than_the_quotas_ask_for(spec: GroupSpec) -> None:
    owner = UNIFORM.assign(spec).owner
    wanted = np.isin(topic_of(spec), list(topics_of(spec, 0)))
    before = loads(spec, np.where(wanted, spec.previous_owner, NOBODY).astype(np.int32))
    quota, extra = divmod(int(wanted.sum()), spec.member_count)
    above = int((before > quota).sum())
    fewest = int(np.maximum(before - quota, 0).sum()) - min(extra, above)
    unwanted = int(((spec.previous_owner != NOBODY) & ~wanted).sum())
    assert moved(spec, owner) == fewest + unwanted


@given(specs())
def test_no_single_move_would_improve_the_balance(spec: GroupSpec) -> None:
    owner = UNIFORM.assign(spec).owner
    load = loads(spec, owner)
    for partition, topic in enumerate(topic_of(spec).tolist()):
        for member in range(spec.member_count):
            if owner[partition] != NOBODY and topic in topics_of(spec, member):
                assert load[owner[partition]] - load[member] <= 1


@given(specs())
def test_an_unchanged_group_moves_nothing(spec: GroupSpec) -> None:
    owner = UNIFORM.assign(spec).owner
    again = UNIFORM.assign(owning(spec, owner)).owner
    assert again.tolist() == owner.tolist()


@given(specs(owns=True), st.data())
def test_who_leaves_a_balanced_group_only_has_their_partitions_given_away(
    spec: GroupSpec, data: st.DataObject
) -> None:
    if len(set(spec.member_class.tolist())) > 1 or spec.member_count < 2:
        spec = spec_of([4, 5], [[0, 1]], [0] * max(2, spec.member_count), None)
    owner = UNIFORM.assign(spec).owner
    gone = data.draw(st.integers(0, spec.member_count - 1))
    kept = np.where(owner == gone, NOBODY, np.where(owner > gone, owner - 1, owner))
    after = replace(
        spec,
        member_class=np.delete(spec.member_class, gone),
        previous_owner=kept.astype(np.int32),
    )
    assert moved(after, UNIFORM.assign(after).owner) == 0


@given(specs())
def test_the_same_group_gets_the_same_assignment_from_read_only_arrays_too(
    spec: GroupSpec,
) -> None:
    owner = UNIFORM.assign(spec).owner
    for name in ("partition_starts", "class_topics", "previous_owner", "member_class"):
        getattr(spec, name).flags.writeable = False
    assert UNIFORM.assign(spec).owner.tolist() == owner.tolist()


def test_a_fresh_homogeneous_group_is_filled_member_by_member() -> None:
    spec = spec_of([3, 3], [[0, 1]], [0, 0], None)
    assert UNIFORM.assign(spec).owner.tolist() == [0, 0, 0, 1, 1, 1]


def test_loads_far_apart_are_sorted_too() -> None:
    # 20,000 partitions on one of two members: more than the room for counting.
    spec = spec_of([20_000, 2], [[0], [0, 1]], [0, 1], [0] * 20_000 + [1, 1])
    assert np.ptp(loads(spec, UNIFORM.assign(spec).owner)) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partition_starts", array()),
        ("partition_starts", array(0, 9, 4)),
        ("class_topics", array(0, 7)),
        ("class_starts", array(0, 1)),
        ("member_class", array(0, 3)),
        ("member_class", array(-1, 0)),
        ("previous_owner", array(0, 0, 0, 2)),
        ("previous_owner", array(0)),
        ("instance_rank", array(0)),
        ("member_rack", array(0)),
        ("rack_starts", array(0, 1)),
    ],
)
def test_arrays_that_are_not_a_group_are_refused_in_a_sentence(
    name: str, value: np.ndarray
) -> None:
    spec = spec_of([2, 2], [[0, 1]], [0, 0], None)
    with pytest.raises(AssignorError, match=r"\w"):
        UNIFORM.assign(replace(spec, **{name: value}))
