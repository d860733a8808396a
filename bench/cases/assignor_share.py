"""Share groups for timing assignors: the shapes of consumer groups, and one with many members."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bench.cases import assignor_cases
from bench.cases.assignor_kind import AssignorKind, balance
from protocol.assignors.registry import assign
from protocol.assignors.spec import GroupSpec, Int32s, SharedAssignment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.report.rounds import Figures

CROWDED: Final = "crowded"
SHAPES: Final = {
    **assignor_cases.ABOUT_SHAPES,
    CROWDED: "all members subscribe to the same 1 % of the topics: partitions have several members",
}


def group(shape: str, members: int, topics: int, partitions: int) -> GroupSpec:
    """Create a group that has nothing yet; ``partitions`` is the mean of a topic."""
    if shape == CROWDED:
        return assignor_cases.group("homogeneous", members, max(topics // 100, 1), partitions)
    return assignor_cases.group(shape, members, topics, partitions)


def without_last(spec: GroupSpec) -> GroupSpec:
    """Remove the last member."""
    starts = spec.previous_starts[:-1]
    return replace(
        spec,
        member_class=spec.member_class[:-1],
        previous_starts=starts,
        previous_partitions=spec.previous_partitions[: starts[-1] if len(starts) else 0],
    )


def owning(spec: GroupSpec, before: SharedAssignment) -> GroupSpec:
    """Set what the members had; members that ``before`` does not know had nothing."""
    starts = np.full(spec.member_count + 1, len(before.partitions), np.int32)
    starts[: len(before.member_starts)] = before.member_starts
    return replace(spec, previous_starts=starts, previous_partitions=before.partitions)


def run(name: str, spec: GroupSpec) -> SharedAssignment:
    """Return the partitions that our assignor gives to each member."""
    assignment = assign(name, spec, is_shared=True)
    assert isinstance(assignment, SharedAssignment)
    return assignment


def quality(spec: GroupSpec, given: SharedAssignment) -> Figures:
    """Measure balance and stickiness.

    ``spread`` and ``sum_of_squares`` are as for consumer groups. ``unowned`` counts partitions
    without a member. ``moved`` counts what members had and lost, ``given`` what they have and had
    not.
    """
    load = np.diff(given.member_starts)
    now = _pairs(spec, given.member_starts, given.partitions)
    before = _pairs(spec, spec.previous_starts, spec.previous_partitions)
    subscribed = np.zeros(spec.topic_count, np.bool_)
    subscribed[spec.class_topics] = True
    wanted = int(np.diff(spec.partition_starts)[subscribed].sum())
    return {
        **balance(spec.member_class, load),
        "unowned": wanted - len(np.unique(given.partitions)),
        "moved": len(np.setdiff1d(before, now, assume_unique=True)),
        "given": len(np.setdiff1d(now, before, assume_unique=True)),
    }


def arrays(spec: GroupSpec) -> list[Int32s]:
    """Return the arrays that ``SharePeerGroup.java`` reads."""
    return [
        spec.partition_starts, spec.class_starts, spec.class_topics,
        spec.member_class, spec.previous_starts, spec.previous_partitions,
    ]  # fmt: skip


def _from_kafka(told: Sequence[Int32s]) -> SharedAssignment:
    starts, partitions = told
    return SharedAssignment(starts, partitions)


def _pairs(spec: GroupSpec, starts: Int32s, partitions: Int32s) -> NDArray[np.int64]:
    """Return a number for each partition of each member; no two have the same."""
    member = np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(starts))
    return member * spec.partition_count + partitions


SHARE: Final = AssignorKind(
    shapes=SHAPES,
    group=group,
    without_last=without_last,
    owning=owning,
    run=run,
    quality=quality,
    to_kafka=arrays,
    from_kafka=_from_kafka,
)
