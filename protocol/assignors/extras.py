"""Who gets one partition more of a topic than its other subscribers, so that totals are even too.

With P partitions and S subscribers, each subscriber of a topic gets P // S of them, and P % S of
the subscribers get one more: an *extra*. Which subscribers get the extras of each topic is all that
``uniform2`` has to decide: it changes the totals of members, and how many partitions move. An
*edge* is a subscriber of a topic, as its place in the subscribers of all topics.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.assignors.kernels import kernel
from protocol.assignors.spec import NOBODY, Bools, Int32s
from protocol.assignors.subscribers import Arrays, Subscribers

ROUNDS_MAX: Final = 64
"""How often the extras of all topics are looked at to move them directly."""
_LEVELS_MAX: Final = 4
"""How many different loads are looked for one by one, before all are sorted."""
_TO_STAY, _BOTH_STAY, _FROM_ABOVE, _TO_BELOW, _KINDS = 0, 2, 3, 4, 6
"""Kinds of moves: only the taker keeps a partition by it, neither does, both do; then only the
giver does, who is above the mean; the taker is below it; any."""


class Extras(NamedTuple):
    """Who has an extra, per edge, and what follows from it.

    ``is_given`` (E): the subscriber has an extra of the topic. ``stays`` (E): it owned more of the
    topic's partitions than all subscribers get, so that with an extra one partition less moves.
    ``load`` (M): the number of partitions of each member, extras included. ``left`` (T): extras of
    each topic that nobody has yet.
    """

    is_given: Bools
    stays: Bools
    load: Int32s
    left: Int32s


@kernel
def no_extras(arrays: Arrays, subscribers: Subscribers, may_stay: Bools) -> Extras:
    """Give every subscriber what all get. ``may_stay`` (P): its previous owner may keep it."""
    starts, first_of = arrays.partition_starts, subscribers.starts
    members, edges = len(arrays.member_class), len(subscribers.members)
    stays = np.zeros(edges, np.bool_)
    load = np.zeros(members, np.int32)
    left = np.zeros(len(starts) - 1, np.int32)
    owned = np.zeros(members, np.int32)
    for topic in range(len(left)):
        count = first_of[topic + 1] - first_of[topic]
        if count == 0:
            continue
        all_get = (starts[topic + 1] - starts[topic]) // count
        left[topic] = (starts[topic + 1] - starts[topic]) % count
        for partition in range(starts[topic], starts[topic + 1]):
            member = arrays.previous_owner[partition]
            if member != NOBODY and may_stay[partition]:
                owned[member] += 1
        for edge in range(first_of[topic], first_of[topic + 1]):
            member = subscribers.members[edge]
            stays[edge] = owned[member] > all_get
            load[member] += all_get
        for partition in range(starts[topic], starts[topic + 1]):
            member = arrays.previous_owner[partition]
            if member != NOBODY:
                owned[member] = 0
    return Extras(np.zeros(edges, np.bool_), stays, load, left)


@kernel
def give(
    subscribers: Subscribers, extras: Extras, topic: int, count: int, is_eligible: Bools
) -> int:
    """Give up to ``count`` extras of a topic to the eligible subscribers with the least partitions.

    ``is_eligible``: per subscriber of the topic. Ties go to the lower member index. Return how many
    are given.
    """
    first, end = subscribers.starts[topic], subscribers.starts[topic + 1]
    loads = np.empty(end - first, np.int64)
    found = 0
    for edge in range(first, end):
        if is_eligible[edge - first] and not extras.is_given[edge]:
            loads[found] = extras.load[subscribers.members[edge]]
            found += 1
    count = min(count, found, extras.left[topic])
    if count <= 0:
        return 0
    most, below = _least(loads[:found], count)
    ties = count - below
    for edge in range(first, end):
        if is_eligible[edge - first] and not extras.is_given[edge]:
            member = subscribers.members[edge]
            if extras.load[member] < most or (extras.load[member] == most and ties > 0):
                ties -= extras.load[member] == most
                extras.is_given[edge] = True
                extras.load[member] += 1
    extras.left[topic] -= count
    return count


@kernel
def _least(loads: NDArray[np.int64], count: int) -> tuple[np.int64, int]:
    """Return the ``count``-th least load, and how many are below it."""
    most, below = np.int64(-1), 0
    for _ in range(_LEVELS_MAX):
        level, here = np.int64(0x7FFF_FFFF), 0
        for load in loads:
            if load == level:
                here += 1
            elif most < load < level:
                level, here = load, 1
        most = level
        if below + here >= count:
            return most, below
        below += here
    loads.sort()
    most = loads[count - 1]
    return most, int(np.searchsorted(loads, most))


@kernel
def give_to_stay(subscribers: Subscribers, extras: Extras) -> None:
    """Give extras to those who keep a partition by it."""
    for topic in range(len(extras.left)):
        if extras.left[topic]:
            first, end = subscribers.starts[topic], subscribers.starts[topic + 1]
            give(subscribers, extras, topic, extras.left[topic], extras.stays[first:end])


@kernel
def give_rest(subscribers: Subscribers, extras: Extras, order: Int32s) -> None:
    """Give the extras that are left to anybody, in this order of topics."""
    for topic in order:
        if extras.left[topic]:
            count = subscribers.starts[topic + 1] - subscribers.starts[topic]
            anybody = np.ones(count, np.bool_)
            give(subscribers, extras, topic, extras.left[topic], anybody)


@kernel
def move_extras(subscribers: Subscribers, extras: Extras) -> None:
    """Move extras from members with more partitions to members with fewer, while that is better.

    First the moves after which more partitions stay, or as many. Then the others: from members
    above the mean of a topic's subscribers, to members below it, and last any.
    """
    for _ in range(ROUNDS_MAX):
        moved = 0
        for topic in range(len(extras.left)):
            gap = _gap(subscribers, extras, topic)
            for kind in range(_FROM_ABOVE):
                if gap >= 1 + (kind > _TO_STAY):
                    moved += _move(subscribers, extras, topic, kind)
        for kind in range(_FROM_ABOVE, _KINDS):
            if moved == 0:
                for topic in range(len(extras.left)):
                    if _gap(subscribers, extras, topic) >= 2:
                        moved += _move(subscribers, extras, topic, kind)
        if moved == 0:
            return


@kernel
def _gap(subscribers: Subscribers, extras: Extras, topic: int) -> int:
    """Return by how much the loads of a topic's subscribers differ."""
    least, most = np.int32(0x7FFF_FFFF), np.int32(-1)
    for edge in range(subscribers.starts[topic], subscribers.starts[topic + 1]):
        load = extras.load[subscribers.members[edge]]
        least, most = min(least, load), max(most, load)
    return int(most) - int(least)


@kernel
def _move(subscribers: Subscribers, extras: Extras, topic: int, kind: int) -> int:
    """Move extras of a topic by one kind of move; return how many."""
    gap = 2 - (kind == _TO_STAY)
    first = subscribers.starts[topic]
    width = np.int64(subscribers.starts[topic + 1] - first)
    full, empty = _sides(subscribers, extras, topic, kind)
    count = min(len(full), len(empty))
    if count == 0 or -(full.min() // width) - empty.min() // width < gap:
        return 0
    full.sort()
    empty.sort()
    for moved in range(count):
        giver, taker = first + full[moved] % width, first + empty[moved] % width
        above = extras.load[subscribers.members[giver]] - extras.load[subscribers.members[taker]]
        if above < gap:
            return moved
        swap(subscribers, extras, giver, taker)
    return count


@kernel
def _sides(
    subscribers: Subscribers, extras: Extras, topic: int, kind: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return who may give, sorting the fullest first, and who may take, the emptiest first.

    Each is its load, negative if it may give, times the number of subscribers, plus its place.
    """
    giver_stays, taker_stays = kind >= _BOTH_STAY, kind in (_TO_STAY, _BOTH_STAY)
    first, end = subscribers.starts[topic], subscribers.starts[topic + 1]
    width, total = np.int64(end - first), np.int64(0)
    for edge in range(first, end):
        total += extras.load[subscribers.members[edge]]
    above, below = np.int64(-1), np.int64(0x7FFF_FFFF)
    if kind == _FROM_ABOVE:
        above = below = -(-total // width)
    elif kind == _TO_BELOW:
        above = below = total // width
    full, empty = np.empty(width, np.int64), np.empty(width, np.int64)
    givers = takers = 0
    for edge in range(first, end):
        load = np.int64(extras.load[subscribers.members[edge]])
        if extras.is_given[edge]:
            full[givers] = -load * width + (edge - first)
            if load > above and extras.stays[edge] == giver_stays:
                givers += 1
        else:
            empty[takers] = load * width + (edge - first)
            if load < below and extras.stays[edge] == taker_stays:
                takers += 1
    return full[:givers], empty[:takers]


@kernel
def swap(subscribers: Subscribers, extras: Extras, giver: int, taker: int) -> None:
    """Move an extra between two edges of one topic."""
    extras.is_given[giver] = False
    extras.is_given[taker] = True
    extras.load[subscribers.members[giver]] -= 1
    extras.load[subscribers.members[taker]] += 1
