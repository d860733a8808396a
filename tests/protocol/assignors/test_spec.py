"""A group's arrays as bytes for another process."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.assignors.spec import (
    AssignorError,
    GroupAssignment,
    GroupSpec,
    pack_assignment,
    pack_spec,
    unpack_assignment,
    unpack_spec,
)
from tests.protocol.assignors.groups import array, specs_with_racks


@given(specs_with_racks())
def test_a_packed_group_is_read_as_it_was_without_copying(spec: GroupSpec) -> None:
    packed = pack_spec(spec)
    read = unpack_spec(packed)
    for each in fields(GroupSpec):
        found = getattr(read, each.name)
        assert found.tolist() == getattr(spec, each.name).tolist()
        assert found.dtype == np.int32
        assert not found.flags.owndata


def test_a_packed_assignment_is_read_as_it_was() -> None:
    packed = pack_assignment(GroupAssignment(array(0, -1, 5)))
    assert unpack_assignment(packed).owner.tolist() == [0, -1, 5]


@given(st.binary(max_size=60))
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(AssignorError):
        unpack_spec(garbage)
    with pytest.raises(AssignorError):
        unpack_assignment(garbage)


@given(specs_with_racks(), st.data())
def test_bytes_that_are_cut_short_are_refused(spec: GroupSpec, data: st.DataObject) -> None:
    packed = pack_spec(spec)
    end = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(AssignorError):
        unpack_spec(packed[:end])
