"""Random groups for assignors, and what a test asks of an assignment."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from protocol.assignors.spec import NOBODY, GroupSpec, Int32s


def array(*values: int) -> Int32s:
    return np.array(values, np.int32)


def spec_of(
    sizes: list[int], classes: list[list[int]], member_class: list[int], previous: list[int] | None
) -> GroupSpec:
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    owner = previous if previous is not None else [NOBODY] * int(starts[-1])
    return GroupSpec(
        partition_starts=starts,
        class_starts=np.concatenate([[0], np.cumsum([len(c) for c in classes])]).astype(np.int32),
        class_topics=array(*(topic for each in classes for topic in each)),
        member_class=array(*member_class),
        previous_owner=array(*owner),
    )


@st.composite
def specs(
    draw: st.DrawFn, *, same: bool = False, members_min: int = 1, owns: bool | None = None
) -> GroupSpec:
    """A group of a few members and topics; ``owns``: whether something is owned before."""
    sizes = draw(st.lists(st.integers(0, 12), min_size=1, max_size=7))
    subscription = st.sets(st.integers(0, len(sizes) - 1)).map(sorted)
    classes = draw(st.lists(subscription, min_size=1, max_size=1 if same else 6))
    members = draw(st.lists(st.integers(0, len(classes) - 1), min_size=members_min, max_size=9))
    owned = draw(st.booleans()) if owns is None else owns
    previous = None
    if owned and members:
        owner = st.integers(NOBODY, len(members) - 1)
        previous = draw(st.lists(owner, min_size=sum(sizes), max_size=sum(sizes)))
    return spec_of(sizes, classes, members, previous)


@st.composite
def specs_with_racks(draw: st.DrawFn) -> GroupSpec:
    spec = draw(specs())
    racks = draw(st.integers(1, 4))
    member_rack = st.lists(
        st.integers(NOBODY, racks - 1), min_size=spec.member_count, max_size=spec.member_count
    )
    rows = st.lists(
        st.sets(st.integers(0, racks)).map(sorted),
        min_size=spec.partition_count,
        max_size=spec.partition_count,
    )
    of_partitions = draw(rows)
    return replace(
        spec,
        member_rack=array(*draw(member_rack)),
        rack_starts=array(*np.concatenate([[0], np.cumsum([len(r) for r in of_partitions])])),
        partition_racks=array(*(rack for row in of_partitions for rack in row)),
    )


def topic_of(spec: GroupSpec) -> Int32s:
    """The topic of each partition."""
    return np.repeat(np.arange(spec.topic_count), np.diff(spec.partition_starts)).astype(np.int32)


def topics_of(spec: GroupSpec, member: int) -> set[int]:
    each = spec.member_class[member]
    return set(spec.class_topics[spec.class_starts[each] : spec.class_starts[each + 1]].tolist())


def loads(spec: GroupSpec, owner: Int32s) -> Int32s:
    return np.bincount(owner[owner != NOBODY], minlength=spec.member_count).astype(np.int32)


def moved(spec: GroupSpec, owner: Int32s) -> int:
    return int(np.count_nonzero((spec.previous_owner != owner) & (spec.previous_owner != NOBODY)))


def check_valid(spec: GroupSpec, owner: Int32s) -> None:
    """Each partition of a subscribed topic has one owner, which subscribes to it; others none."""
    subscribed = set().union(*(topics_of(spec, m) for m in range(spec.member_count)))
    for partition, topic in enumerate(topic_of(spec).tolist()):
        if topic in subscribed:
            assert topic in topics_of(spec, int(owner[partition]))
        else:
            assert owner[partition] == NOBODY


def owning(spec: GroupSpec, owner: Int32s) -> GroupSpec:
    return replace(spec, previous_owner=owner)


def squares(spec: GroupSpec, owner: Int32s) -> int:
    return int((loads(spec, owner).astype(np.int64) ** 2).sum())
