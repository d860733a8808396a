"""The range assignor: contiguous shares in the order of instance ids, then member ids."""

from dataclasses import replace

import numpy as np
from hypothesis import given

from protocol.assignors.range import RangeAssignor
from protocol.assignors.spec import NOBODY, GroupSpec
from tests.protocol.assignors.groups import array, check_valid, spec_of, specs, topic_of, topics_of

RANGE = RangeAssignor()


@given(specs(members_min=0))
def test_each_partition_of_a_subscribed_topic_has_one_owner_that_subscribes(
    spec: GroupSpec,
) -> None:
    check_valid(spec, RANGE.assign(spec).owner)


@given(specs())
def test_of_each_topic_members_have_contiguous_shares_and_the_first_ones_the_rest(
    spec: GroupSpec,
) -> None:
    owner = RANGE.assign(spec).owner
    for topic in range(spec.topic_count):
        subscribers = [m for m in range(spec.member_count) if topic in topics_of(spec, m)]
        owners = owner[topic_of(spec) == topic].tolist()
        if subscribers:
            quota, extra = divmod(len(owners), len(subscribers))
            shares = [quota + (place < extra) for place in range(len(subscribers))]
            assert owners == np.repeat(subscribers, shares).tolist()


@given(specs(same=True))
def test_topics_of_the_same_size_are_copartitioned(spec: GroupSpec) -> None:
    owner = RANGE.assign(spec).owner
    seen: dict[int, list[int]] = {}
    for topic in topics_of(spec, 0):
        owners = owner[topic_of(spec) == topic].tolist()
        assert seen.setdefault(len(owners), owners) == owners


def test_static_members_come_first_in_the_order_of_their_instance_ids() -> None:
    spec = replace(
        spec_of([4], [[0]], [0, 0, 0, 0], None), instance_rank=array(NOBODY, 1, NOBODY, 0)
    )
    assert RANGE.assign(spec).owner.tolist() == [3, 1, 0, 2]


@given(specs(owns=True))
def test_what_was_owned_before_does_not_matter(spec: GroupSpec) -> None:
    nothing = replace(spec, previous_owner=np.full_like(spec.previous_owner, NOBODY))
    assert RANGE.assign(spec).owner.tolist() == RANGE.assign(nothing).owner.tolist()
