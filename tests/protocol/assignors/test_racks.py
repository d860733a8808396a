"""Rack awareness (KIP-881's aim): racks first, then balance, then stickiness."""

from dataclasses import replace

import numpy as np
from hypothesis import given

from protocol.assignors.spec import NOBODY, GroupSpec
from protocol.assignors.uniform import UniformAssignor
from tests.protocol.assignors.groups import (
    array,
    check_valid,
    loads,
    owning,
    spec_of,
    specs,
    specs_with_racks,
    topic_of,
    topics_of,
)

UNIFORM = UniformAssignor()


def racks_of(spec: GroupSpec, partition: int) -> set[int]:
    first, end = spec.rack_starts[partition], spec.rack_starts[partition + 1]
    return set(spec.partition_racks[first:end].tolist())


def candidates(spec: GroupSpec, partition: int, topic: int) -> set[int]:
    """Who may own a partition: the subscribers on its racks, or all of them if there are none."""
    subscribers = {m for m in range(spec.member_count) if topic in topics_of(spec, m)}
    near = {m for m in subscribers if spec.member_rack[m] in racks_of(spec, partition)}
    return near or subscribers


@given(specs_with_racks())
def test_a_partition_goes_to_a_rack_of_its_replicas_when_a_subscriber_is_there(
    spec: GroupSpec,
) -> None:
    owner = UNIFORM.assign(spec).owner
    check_valid(spec, owner)
    for partition, topic in enumerate(topic_of(spec).tolist()):
        if owner[partition] != NOBODY:
            assert owner[partition] in candidates(spec, partition, topic)


@given(specs_with_racks())
def test_within_the_racks_no_single_move_would_improve_the_balance(spec: GroupSpec) -> None:
    owner = UNIFORM.assign(spec).owner
    load = loads(spec, owner)
    for partition, topic in enumerate(topic_of(spec).tolist()):
        if owner[partition] != NOBODY:
            for member in candidates(spec, partition, topic):
                assert load[owner[partition]] - load[member] <= 1


@given(specs_with_racks())
def test_an_unchanged_group_moves_nothing(spec: GroupSpec) -> None:
    owner = UNIFORM.assign(spec).owner
    assert UNIFORM.assign(owning(spec, owner)).owner.tolist() == owner.tolist()


@given(specs())
def test_with_replicas_on_every_rack_balance_is_as_without_racks(spec: GroupSpec) -> None:
    partitions = spec.partition_count
    everywhere = replace(
        spec,
        member_rack=array(*(member % 2 for member in range(spec.member_count))),
        rack_starts=np.arange(0, 2 * partitions + 1, 2, dtype=np.int32),
        partition_racks=array(*([0, 1] * partitions)),
    )
    with_racks, without = (UNIFORM.assign(each).owner for each in (everywhere, spec))
    check_valid(spec, with_racks)
    # Who of those with an equal load gets the last partitions may differ.
    assert sorted(loads(spec, with_racks)) == sorted(loads(spec, without))


def test_more_racks_than_bits_of_a_number_are_told_apart() -> None:
    racks = 130
    spec = replace(
        spec_of([racks], [[0]], [0] * racks, None),
        member_rack=np.arange(racks, dtype=np.int32)[::-1].copy(),
        rack_starts=np.arange(racks + 1, dtype=np.int32),
        partition_racks=np.arange(racks, dtype=np.int32),
    )
    assert UNIFORM.assign(spec).owner.tolist() == list(range(racks))[::-1]
