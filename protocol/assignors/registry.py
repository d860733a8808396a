"""The assignors by name: Kafka's own ones, and custom ones that are installed as entry points.

A package adds an assignor by an entry point of the group ``rollcall.assignors``. Its object is an
:class:`~protocol.assignors.spec.Assignor`, or a class or function that returns one when called
without arguments. ``group.consumer.assignors``, ``group.share.assignors``,
``group.streams.assignors`` and members use the entry point's name. Custom assignors are loaded in
worker processes only: the coordinator knows only their names.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from protocol.assignors.spec import (
    NOBODY,
    Assignor,
    AssignorError,
    GroupAssignment,
    GroupSpec,
    Int32s,
    SharedAssignment,
    whole_numbers,
)
from protocol.assignors.tasks.spec import check_assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.assignors.tasks.spec import TaskAssignment, TaskGroupSpec

ENTRY_POINTS: Final = "rollcall.assignors"
BUILT_IN_OF: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"consumer": ("uniform", "range", "uniform2"), "share": ("simple",), "streams": ("sticky",)}
)
"""The built-in assignors by type of group."""

BUILT_IN: Final = tuple(name for names in BUILT_IN_OF.values() for name in names)


@cache
def custom_names() -> frozenset[str]:
    """Return the names of the installed custom assignors, without loading any."""
    return frozenset(each.name for each in entry_points(group=ENTRY_POINTS)) - {*BUILT_IN}


def is_known(name: str) -> bool:
    """Return whether an assignor of this name exists."""
    return name in BUILT_IN or name in custom_names()


@cache
def assignor(name: str) -> Any:
    """Load an assignor; raise AssignorError if it is unknown or does not load."""
    if name == "uniform":
        from protocol.assignors.uniform import UniformAssignor

        return UniformAssignor()
    if name == "uniform2":
        from protocol.assignors.uniform2 import Uniform2Assignor

        return Uniform2Assignor()
    if name == "range":
        from protocol.assignors.range import RangeAssignor

        return RangeAssignor()
    if name == "simple":
        from protocol.assignors.simple import SimpleAssignor

        return SimpleAssignor()
    if name == "sticky":
        from protocol.assignors.tasks.sticky import StickyTaskAssignor

        return StickyTaskAssignor()
    if name not in custom_names():
        raise AssignorError(f"there is no assignor {name!r}")
    (found,) = list(entry_points(group=ENTRY_POINTS, name=name))[:1]
    try:
        loaded = found.load()
        made = loaded if isinstance(loaded, Assignor) and not isinstance(loaded, type) else loaded()
    except (Exception, SystemExit) as error:
        raise AssignorError(f"the assignor {name!r} does not load: {_said(error)}") from error
    if not isinstance(made, Assignor):
        raise AssignorError(f"the assignor {name!r} has no method assign or no name")
    return made


def assign(
    name: str, spec: GroupSpec, *, is_shared: bool = False
) -> GroupAssignment | SharedAssignment:
    """Run an assignor and check its result; raise AssignorError if anything is wrong.

    ``is_shared``: it must return a SharedAssignment; otherwise a GroupAssignment.
    """
    chosen = assignor(name)
    return run_checked(chosen.assign, name, spec, is_shared=is_shared)


def assign_tasks(name: str, spec: TaskGroupSpec) -> TaskAssignment:
    """Run a task assignor and check its result; raise AssignorError if anything is wrong."""
    return check_assignment(assignor(name).assign, name, spec)


def run_checked(
    run: Callable[[GroupSpec], GroupAssignment | SharedAssignment],
    name: str,
    spec: GroupSpec,
    *,
    is_shared: bool,
) -> GroupAssignment | SharedAssignment:
    """Call an assignor's ``assign``; an exception or an invalid assignment is an AssignorError."""
    try:
        assignment = run(spec)
    except AssignorError:
        raise
    except (Exception, SystemExit) as error:  # it must not end its process
        raise AssignorError(f"the assignor {name!r} failed: {_said(error)}") from error
    if is_shared:
        return _checked_shared(assignment, name, spec)
    try:
        owner = np.ascontiguousarray(getattr(assignment, "owner", None))
    except Exception:
        owner = np.empty(0, object)
    if owner.dtype.kind not in "iu" or owner.shape != (spec.partition_count,):
        raise AssignorError(f"the assignor {name!r} gave no array of {spec.partition_count} owners")
    if why := why_invalid(spec, owner.astype(np.int64)):
        raise AssignorError(f"the assignor {name!r} gave an invalid assignment: {why}")
    return GroupAssignment(owner.astype(np.int32, copy=False))


def _checked_shared(shared: object, name: str, spec: GroupSpec) -> SharedAssignment:
    """Check that each member has partitions of topics that it subscribes to, each once."""
    if not isinstance(shared, SharedAssignment):
        raise AssignorError(f"the assignor {name!r} gave no partitions of each of the members")
    arrays = whole_numbers(shared, "member_starts", "partitions")
    if arrays is None:
        raise AssignorError(f"the assignor {name!r} gave no arrays of partitions")
    starts, partitions = arrays
    has_rows = starts.shape == (spec.member_count + 1,) and partitions.ndim == 1
    if not (has_rows and starts[0] == 0 and starts[-1] == len(partitions)):
        raise AssignorError(f"the assignor {name!r} gave no row for each of the members")
    sizes = np.diff(starts)
    if np.any(sizes < 0):
        raise AssignorError(f"the assignor {name!r} gave rows that run backwards")
    if len(partitions):
        if partitions.min() < 0 or partitions.max() >= spec.partition_count:
            raise AssignorError(f"the assignor {name!r} gave a partition that there is not")
        if len(spec.is_assignable) and not spec.is_assignable[partitions].all():
            raise AssignorError(f"the assignor {name!r} gave a partition that nobody may have yet")
        member = np.repeat(np.arange(spec.member_count), sizes)
        same_row = member[1:] == member[:-1]
        if np.any(same_row & (np.diff(partitions) <= 0)):
            raise AssignorError(f"the assignor {name!r} gave partitions that do not ascend")
        topics = np.searchsorted(spec.partition_starts, partitions, side="right") - 1
        subscribes = np.zeros((spec.class_count, spec.topic_count), np.bool_)
        rows = np.repeat(np.arange(spec.class_count), np.diff(spec.class_starts))
        subscribes[rows, spec.class_topics] = True
        if not np.all(subscribes[spec.member_class[member], topics]):
            raise AssignorError(
                f"the assignor {name!r} gave a member what it does not subscribe to"
            )
    return SharedAssignment(starts, partitions)


def why_invalid(spec: GroupSpec, owner: Int32s) -> str | None:
    """Return what is wrong with an assignment of the right length; None if it is valid."""
    if len(owner) and not (owner.min() >= NOBODY and owner.max() < spec.member_count):
        return f"an owner is no member, of which there are {spec.member_count}"
    return None if _is_valid(spec, owner.astype(np.int32)) else _what_is_wrong(spec, owner)


def _is_valid(spec: GroupSpec, owner: Int32s) -> bool:
    """Return whether every owner may have its partitions, and no wanted partition lacks one."""
    from protocol.assignors.subscribers import arrays_of, keep_owners

    kept, _, unowned = keep_owners(arrays_of(spec)._replace(previous_owner=owner))
    populated = np.bincount(spec.member_class, minlength=spec.class_count) > 0
    is_wanted = np.zeros(spec.topic_count, np.bool_)
    if populated.all():
        is_wanted[spec.class_topics] = True
    else:
        is_wanted[spec.class_topics[np.repeat(populated, np.diff(spec.class_starts))]] = True
    return np.array_equal(kept, owner) and not np.any(unowned[is_wanted])


def _what_is_wrong(spec: GroupSpec, owner: Int32s) -> str | None:
    subscribes = np.zeros((spec.class_count + 1, spec.topic_count), np.bool_)
    rows = np.repeat(np.arange(spec.class_count), np.diff(spec.class_starts))
    subscribes[rows, spec.class_topics] = True
    populated = np.bincount(spec.member_class, minlength=spec.class_count) > 0
    # NOBODY's class is the last row: the topics that no member subscribes to.
    subscribes[-1] = ~subscribes[:-1][populated].any(axis=0)
    class_of = np.append(spec.member_class, spec.class_count)
    topics = np.repeat(np.arange(spec.topic_count), np.diff(spec.partition_starts))
    wrong = np.flatnonzero(~subscribes[class_of[owner], topics])
    if not len(wrong):
        return None
    topic = int(topics[wrong[0]])
    partition = int(wrong[0] - spec.partition_starts[topic])
    if owner[wrong[0]] == NOBODY:
        return f"partition {partition} of topic {topic} has no owner"
    return f"the owner of partition {partition} of topic {topic} does not subscribe to it"


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
