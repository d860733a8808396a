"""Assignors by name; custom ones may fail in any way, and that is said in a sentence."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from protocol.assignors.registry import assign, custom_names, is_known, why_invalid
from protocol.assignors.spec import AssignorError, GroupAssignment, GroupSpec
from tests.protocol.assignors.groups import array, spec_of

SPEC = spec_of([2, 1, 1], [[0], [0, 1]], [0, 1], None)
GOOD = array(0, 1, 1, -1)


@dataclass
class Custom:
    """A custom assignor that gives or raises what it is made with."""

    outcome: Any
    name: str = "custom"

    def assign(self, spec: GroupSpec) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Factory(Custom):
    def __init__(self) -> None:
        super().__init__(GroupAssignment(GOOD))


def test_kafkas_assignors_are_known_and_no_others() -> None:
    assert is_known("uniform")
    assert is_known("range")
    assert is_known("sticky")
    assert not is_known("best")
    assert custom_names() == frozenset()
    with pytest.raises(AssignorError, match="there is no assignor 'best'"):
        assign("best", SPEC)
    with pytest.raises(AssignorError, match="the assignor 'sticky' failed"):
        assign("sticky", SPEC)  # it assigns tasks


@pytest.mark.parametrize("found", [Custom(GroupAssignment(GOOD)), Factory])
def test_a_custom_assignor_is_an_object_or_makes_one(installed: Any, found: Any) -> None:
    installed(found)
    assert is_known("custom")
    assert assign("custom", SPEC).owner.tolist() == GOOD.tolist()


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (RuntimeError("no\n luck"), "the assignor 'custom' failed: RuntimeError: no luck"),
        (AssignorError("too few members"), "too few members"),
        (None, "gave no array of 4 owners"),
        (GroupAssignment(array(0, 1, 1)), "gave no array of 4 owners"),
        (GroupAssignment(np.zeros(4)), "gave no array of 4 owners"),  # type: ignore[arg-type]
        (GroupAssignment(array(0, 1, 2, -1)), "an owner is no member, of which there are 2"),
        (GroupAssignment(array(0, 1, -2, -1)), "an owner is no member"),
        (GroupAssignment(np.array([0, 1, 1, 1 << 40])), "an owner is no member"),  # type: ignore[arg-type]
        (GroupAssignment(array(0, -1, 1, -1)), "partition 1 of topic 0 has no owner"),
        (GroupAssignment(array(0, 1, 0, -1)), "partition 0 of topic 1 does not subscribe to it"),
        (GroupAssignment(array(0, 1, 1, 0)), "partition 0 of topic 2 does not subscribe to it"),
    ],
)
def test_a_custom_assignor_that_fails_is_said_in_a_sentence(
    installed: Any, outcome: Any, said: str
) -> None:
    installed(Custom(outcome))
    with pytest.raises(AssignorError, match=said):
        assign("custom", SPEC)


@pytest.mark.parametrize("found", [ImportError("no module"), object(), 5])
def test_a_custom_assignor_that_does_not_load_is_said_in_a_sentence(
    installed: Any, found: Any
) -> None:
    installed(found)
    with pytest.raises(AssignorError, match="the assignor 'custom'"):
        assign("custom", SPEC)


def test_an_assignment_of_a_group_without_members_has_no_owners() -> None:
    empty = spec_of([2], [], [], None)
    assert why_invalid(empty, array(-1, -1)) is None
    assert why_invalid(empty, array(0, -1)) is not None
