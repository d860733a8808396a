"""Rack awareness: partitions go to members on a rack of one of their replicas, if there are any.

That comes first, then balance, then stickiness (the aim of KIP-881, which Kafka's own assignors of
consumer groups do not follow). It works by splitting: partitions of a topic with replicas on the
same racks become a separate topic, and only members on those racks subscribe to it. If no
subscriber is on them, all subscribers do. The uniform assignor does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.assignors.spec import NOBODY, GroupSpec, Int32s, no_values

_BITS: int = 62
"""Racks per word: a word of that many bits is an ``int64`` above zero."""


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """A group whose topics are split by racks.

    ``order`` (P) are the original partitions in the order of ``spec``.
    """

    spec: GroupSpec
    order: Int32s

    def owners(self, owner: Int32s) -> Int32s:
        """Convert the owners of ``spec``'s partitions to those of the original partitions."""
        original = np.empty_like(owner)
        original[self.order] = owner
        return original


def split_by_racks(spec: GroupSpec) -> Split:
    """Let only members on a partition's racks subscribe to it, if there are such members."""
    topics = np.repeat(np.arange(spec.topic_count), np.diff(spec.partition_starts))
    racks = np.unique(spec.member_rack[spec.member_rack != NOBODY])
    holds = _racks_of_partitions(spec, racks)
    keys, part = np.unique(_number_rows(holds, topics), return_inverse=True)
    order = np.argsort(part, kind="stable").astype(np.int32)
    sizes = np.bincount(part, minlength=len(keys))
    firsts = order[np.cumsum(sizes) - sizes]
    member_class, classes = _subscriptions(spec, racks, topics[firsts], holds[firsts])
    previous = spec.previous_owner[order]
    return Split(
        GroupSpec(
            partition_starts=_prefix_sums(sizes),
            class_starts=_prefix_sums(np.array([len(each) for each in classes])),
            class_topics=np.concatenate(classes) if classes else no_values(),
            member_class=member_class,
            previous_owner=previous,
            instance_rank=spec.instance_rank,
        ),
        order,
    )


def _racks_of_partitions(spec: GroupSpec, racks: Int32s) -> NDArray[np.bool_]:
    """Return for each partition and each rack with members whether a replica is on it."""
    holds = np.zeros((spec.partition_count, len(racks)), np.bool_)
    partitions = np.repeat(np.arange(spec.partition_count), np.diff(spec.rack_starts))
    place = np.searchsorted(racks, spec.partition_racks)
    place[place == len(racks)] = 0
    has_members = racks[place] == spec.partition_racks
    holds[partitions[has_members], place[has_members]] = True
    return holds


def _number_rows(flags: NDArray[np.bool_], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give equal rows the same number, ordered by ``numbers`` first."""
    kind = np.zeros(len(flags), np.int64)
    for first in range(0, flags.shape[1], _BITS):
        here = flags[:, first : first + _BITS]
        words, place = np.unique(here @ (1 << np.arange(here.shape[1])), return_inverse=True)
        _, kind = np.unique(kind * len(words) + place, return_inverse=True)
    numbered: NDArray[np.int64] = numbers * (kind.max(initial=0) + 1) + kind
    return numbered


def _subscriptions(
    spec: GroupSpec, racks: Int32s, topics: NDArray[np.int64], holds: NDArray[np.bool_]
) -> tuple[Int32s, list[Int32s]]:
    """Return the class of each member, and the topics of each class, after the split.

    ``topics`` and ``holds`` give the original topic and the racks of each topic after the split.
    """
    place = np.where(
        spec.member_rack == NOBODY, len(racks), np.searchsorted(racks, spec.member_rack)
    )
    keys, member_key = np.unique(
        spec.member_class.astype(np.int64) * (len(racks) + 1) + place, return_inverse=True
    )
    has_member = np.zeros((spec.topic_count, len(racks) + 1), np.bool_)
    for key in keys:
        has_member[_topics_of(spec, int(key) // (len(racks) + 1)), int(key) % (len(racks) + 1)] = 1
    is_near = np.column_stack([holds, np.zeros(len(topics), np.bool_)])
    is_far = ~np.any(is_near & has_member[topics], axis=1)
    numbers: dict[bytes, int] = {}
    classes: list[Int32s] = []
    class_of_key = np.empty(len(keys), np.int32)
    for number, key in enumerate(keys):
        each, rack = divmod(int(key), len(racks) + 1)
        wanted = np.zeros(spec.topic_count, np.bool_)
        wanted[_topics_of(spec, each)] = True
        found = np.flatnonzero(wanted[topics] & (is_far | is_near[:, rack])).astype(np.int32)
        known = numbers.setdefault(found.tobytes(), len(classes))
        if known == len(classes):
            classes.append(found)
        class_of_key[number] = known
    return class_of_key[member_key.reshape(-1)], classes


def _topics_of(spec: GroupSpec, number: int) -> Int32s:
    return spec.class_topics[spec.class_starts[number] : spec.class_starts[number + 1]]


def _prefix_sums(sizes: NDArray[np.int64]) -> Int32s:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
