"""Consumer groups for timing assignors: shapes of subscriptions, and what has changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.cases.assignor_kind import AssignorKind, balance
from protocol.assignors.registry import assign
from protocol.assignors.spec import NOBODY, GroupAssignment, GroupSpec, Int32s

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.cases.assignor_peer import AssignorPeer
    from bench.report.rounds import Figures

SEED: Final = 848


def _same(_members: int, topics: int) -> list[Int32s]:
    return [np.arange(topics, dtype=np.int32)]


def _buckets(_members: int, topics: int) -> list[Int32s]:
    return [np.asarray(rows, np.int32) for rows in np.array_split(np.arange(topics), 5)]


def _classes(_members: int, topics: int) -> list[Int32s]:
    rng = np.random.default_rng(SEED)
    return [_pick(rng, topics, 0.3) for _ in range(20)]


def _random(members: int, topics: int) -> list[Int32s]:
    rng = np.random.default_rng(SEED)
    return [_pick(rng, topics, 0.2) for _ in range(members)]


def _chain(members: int, topics: int) -> list[Int32s]:
    width = max(2, topics // 50)
    firsts = np.arange(members) * topics // members
    return [np.arange(at, min(at + width, topics), dtype=np.int32) for at in firsts.tolist()]


def _pick(rng: np.random.Generator, topics: int, share: float) -> Int32s:
    count = max(1, round(topics * share))
    return np.sort(rng.choice(topics, count, replace=False)).astype(np.int32)


SHAPES: Final[dict[str, Callable[[int, int], list[Int32s]]]] = {
    "homogeneous": _same,
    "buckets": _buckets,
    "classes": _classes,
    "random": _random,
    "chain": _chain,
}
ABOUT_SHAPES: Final = {
    "homogeneous": "all members subscribe to all topics",
    "buckets": "five disjoint sets of topics",
    "classes": "20 overlapping sets, each of 30 % of the topics",
    "random": "every member its own random 20 % of the topics",
    "chain": "each member a window of topics that overlaps the next one's; small topics first",
}


def group(shape: str, members: int, topics: int, partitions: int) -> GroupSpec:
    """Create a group that owns nothing yet; ``partitions`` is the mean of a topic."""
    sizes = np.full(topics, partitions, np.int32)
    if shape == "chain":
        sizes[: topics // 2] = max(1, partitions // 2)
        sizes[topics // 2 :] = partitions * 2 - max(1, partitions // 2)
    classes = SHAPES[shape](members, topics)
    starts = np.concatenate([[0], np.cumsum([len(row) for row in classes])])
    partition_starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return GroupSpec(
        partition_starts=partition_starts,
        class_starts=starts.astype(np.int32),
        class_topics=np.concatenate(classes),
        member_class=(np.arange(members) % len(classes)).astype(np.int32),
        previous_owner=np.full(int(partition_starts[-1]), NOBODY, np.int32),
    )


def without_last(spec: GroupSpec) -> GroupSpec:
    """Remove the last member; what it owned has no owner."""
    last = spec.member_count - 1
    owner = spec.previous_owner
    return replace(
        spec,
        member_class=spec.member_class[:last],
        previous_owner=np.where(owner == last, NOBODY, owner).astype(np.int32),
    )


def owning(spec: GroupSpec, owner: Int32s) -> GroupSpec:
    """Set the group's owned partitions from ``owner``."""
    return replace(spec, previous_owner=np.asarray(owner, np.int32))


def run(name: str, spec: GroupSpec) -> Int32s:
    """Return the owners that our assignor computes."""
    assignment = assign(name, spec)
    assert isinstance(assignment, GroupAssignment)
    return assignment.owner


def ask_kafka(peer: AssignorPeer, name: str, spec: GroupSpec) -> Int32s:
    """Return the owners that Kafka's assignor computes."""
    return _owner(peer.assign(name, arrays(spec)))


def arrays(spec: GroupSpec) -> list[Int32s]:
    """Return the arrays that ``ConsumerPeerGroup.java`` reads."""
    return [
        spec.partition_starts, spec.class_starts, spec.class_topics,
        spec.member_class, spec.previous_owner, spec.instance_rank,
    ]  # fmt: skip


def quality(spec: GroupSpec, owner: Int32s) -> Figures:
    """Measure balance and stickiness.

    ``spread`` is the largest difference between the loads of two members with the same
    subscriptions, ``sum_of_squares`` is over all loads, ``moved`` counts partitions that move from
    one member to another.
    """
    load = np.bincount(owner[owner != NOBODY], minlength=spec.member_count)
    moved = np.count_nonzero((owner != spec.previous_owner) & (spec.previous_owner != NOBODY))
    given = np.count_nonzero((owner != spec.previous_owner) & (spec.previous_owner == NOBODY))
    return {**balance(spec.member_class, load), "moved": int(moved), "given": int(given)}


def _owner(told: Sequence[Int32s]) -> Int32s:
    (owner,) = told
    return owner


CONSUMER: Final = AssignorKind(
    shapes=ABOUT_SHAPES,
    group=group,
    without_last=without_last,
    owning=owning,
    run=run,
    quality=quality,
    to_kafka=arrays,
    from_kafka=_owner,
    has_worker=True,
)
