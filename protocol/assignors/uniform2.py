"""Uniform2: each topic is even among its subscribers within one partition, then the totals are.

This is the aim of KAFKA-21214: ``uniform`` evens out the totals only, so a member may get many
partitions of one topic and none of another. The steps:

1. Each subscriber of a topic gets the same number of its partitions, and some get one more, an
   *extra*: first those who keep a partition by it, then those with the fewest partitions.
2. Extras move until the totals are as even as they can be: directly, then along chains of topics.
   Members with the same subscriptions differ by one partition at most.
3. Each topic's partitions stay with their owners, up to what these now get; the rest is dealt out.

If racks are known, steps 1 and 3 prefer members on a rack of a replica among all that are equally
even: see :mod:`protocol.assignors.rack_matching`.
"""

from __future__ import annotations

import numpy as np

from protocol.assignors.extras import (
    Extras,
    give_rest,
    give_to_stay,
    move_extras,
    no_extras,
)
from protocol.assignors.extras_paths import STEPS_MAX, move_along_chains
from protocol.assignors.kernels import check_spec, kernel
from protocol.assignors.rack_matching import (
    Racks,
    give_near,
    is_near,
    owners_by_racks,
    racks_of,
)
from protocol.assignors.spec import NOBODY, GroupAssignment, GroupSpec, Int32s
from protocol.assignors.subscribers import Arrays, Subscribers, arrays_of, find_subscribers

TRIES_MAX = 8
"""How often an assignment by racks is improved; one or two are usual."""


class Uniform2Assignor:
    """``uniform2``, for consumer groups whose members name it."""

    name = "uniform2"

    def assign(self, spec: GroupSpec) -> GroupAssignment:
        """Assign an owner to every partition of a subscribed topic."""
        check_spec(spec)
        arrays = arrays_of(spec)
        subscribers = find_subscribers(arrays)
        counts = np.diff(subscribers.starts)
        order = np.argsort(counts, kind="stable").astype(np.int32)  # the least choice first
        if spec.is_rack_aware and spec.partition_count:
            return GroupAssignment(_assign_by_racks(arrays, subscribers, order, racks_of(spec)))
        return GroupAssignment(_assign(arrays, subscribers, order, STEPS_MAX))


def _assign(arrays: Arrays, subscribers: Subscribers, order: Int32s, steps_max: int) -> Int32s:
    extras = no_extras(arrays, subscribers, np.ones(len(arrays.previous_owner), np.bool_))
    give_to_stay(subscribers, extras)
    give_rest(subscribers, extras, order)
    _even_out(arrays, subscribers, extras, steps_max)
    return _owners(arrays, subscribers, extras)


def _even_out(arrays: Arrays, subscribers: Subscribers, extras: Extras, steps_max: int) -> None:
    move_extras(subscribers, extras)
    move_along_chains(arrays, subscribers, extras, steps_max)
    move_extras(subscribers, extras)


@kernel
def _owners(arrays: Arrays, subscribers: Subscribers, extras: Extras) -> Int32s:
    """Leave partitions with their owners up to what these get, and deal out the rest in order."""
    starts, first_of = arrays.partition_starts, subscribers.starts
    owner = np.full(len(arrays.previous_owner), NOBODY, np.int32)
    room = np.zeros(len(extras.load), np.int32)
    for topic in range(len(starts) - 1):
        first, end = first_of[topic], first_of[topic + 1]
        if first == end:
            continue
        all_get = (starts[topic + 1] - starts[topic]) // (end - first)
        for edge in range(first, end):
            room[subscribers.members[edge]] = all_get + extras.is_given[edge]
        for partition in range(starts[topic], starts[topic + 1]):
            member = arrays.previous_owner[partition]
            if member != NOBODY and room[member] > 0:
                owner[partition] = member
                room[member] -= 1
        edge = first
        for partition in range(starts[topic], starts[topic + 1]):
            if owner[partition] == NOBODY:
                while room[subscribers.members[edge]] == 0:
                    edge += 1
                owner[partition] = subscribers.members[edge]
                room[subscribers.members[edge]] -= 1
        for each in range(first, end):
            room[subscribers.members[each]] = 0
    return owner


def _assign_by_racks(
    arrays: Arrays, subscribers: Subscribers, order: Int32s, racks: Racks
) -> Int32s:
    """Improve the previous assignment until nothing is better: an unchanged group moves nothing."""
    owner, best = arrays.previous_owner, None
    if _is_even(arrays, subscribers):
        best = _worth(owner, len(arrays.member_class), racks)
    for _ in range(TRIES_MAX):
        since = arrays._replace(previous_owner=owner)
        extras = no_extras(since, subscribers, np.ones(len(owner), np.bool_))
        near = no_extras(since, subscribers, is_near(owner, racks))
        give_to_stay(subscribers, extras._replace(stays=near.stays))
        give_near(since, subscribers, extras, racks)
        give_to_stay(subscribers, extras)
        give_rest(subscribers, extras, order)
        extras = extras._replace(stays=extras.is_given.copy())  # move only what balance asks for
        _even_out(since, subscribers, extras, STEPS_MAX)
        found = owners_by_racks(since, subscribers, extras, racks)
        worth = _worth(found, len(arrays.member_class), racks)
        if best is not None and worth <= best:
            break
        owner, best = found, worth
    return owner


def _worth(owner: Int32s, members: int, racks: Racks) -> tuple[int, int]:
    """Return how even the totals are (more is better), and how many partitions are near."""
    load = np.bincount(owner[owner != NOBODY], minlength=members)
    return -int((load * load).sum()), int(is_near(owner, racks).sum())


@kernel
def _is_even(arrays: Arrays, subscribers: Subscribers) -> bool:
    """Return whether the previous assignment is valid and each topic even within one partition."""
    starts, first_of = arrays.partition_starts, subscribers.starts
    owned = np.zeros(len(arrays.member_class), np.int32)
    for topic in range(len(starts) - 1):
        count = first_of[topic + 1] - first_of[topic]
        for partition in range(starts[topic], starts[topic + 1]):
            member = arrays.previous_owner[partition]
            if (member == NOBODY) != (count == 0):
                return False
            if member != NOBODY:
                owned[member] += 1
        left = starts[topic + 1] - starts[topic]
        for edge in range(first_of[topic], first_of[topic + 1]):
            has = owned[subscribers.members[edge]]
            if not 0 <= has - (starts[topic + 1] - starts[topic]) // count <= 1:
                return False
            left -= has
            owned[subscribers.members[edge]] = 0
        if count and left:
            return False
    return True
