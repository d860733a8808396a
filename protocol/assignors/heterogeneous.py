"""Uniform for members with different subscriptions.

The order of decisions is Kafka's, so that the result is never less balanced and moves no more:
owners keep what they still subscribe to; what nobody owns goes, topic by topic, the topics with the
most partitions per subscriber first, to the subscriber with the fewest partitions; then partitions
of a topic move from the fullest subscribers to the emptiest, topic after topic and round after
round, until nothing gets better. Ties go to the lower member index.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.assignors.kernels import inlined, kernel
from protocol.assignors.spec import NOBODY, GroupSpec, Int32s
from protocol.assignors.subscribers import (
    Arrays,
    Subscribers,
    arrays_of,
    find_subscribers,
    keep_owners,
)

ROUNDS_MAX: Final = 16
"""As in Kafka: a chain of overlapping subscriptions gets only slowly better after that."""
_INSERTION_MAX: Final = 32
"""Up to this many subscribers, sorting by insertion is faster than by counting."""
_COUNTING_SPAN_MAX: Final = 4096
"""Up to this difference between loads, members are sorted by counting."""


class Balance(NamedTuple):
    """What the balancing of one topic after the other reads and writes.

    ``owner`` per partition, ``load`` per member. ``ladder``: the topic's subscribers, emptiest
    first. ``top``: per member the next of the topic's partitions it can give, ``below``: per
    partition the one after that (a list per owner, highest partition first). ``counts``: room for
    counting. ``changed`` per member: the last visit to a topic that changed its load. ``stale`` per
    topic: a subscriber's load has changed since the topic was balanced, so look again.
    """

    owner: Int32s
    load: Int32s
    ladder: Int32s
    top: Int32s
    below: Int32s
    counts: Int32s
    changed: Int32s
    stale: NDArray[np.bool_]


def assign_heterogeneous(spec: GroupSpec) -> Int32s:
    """Give every partition of a subscribed topic an owner."""
    arrays = arrays_of(spec)
    subscribers = find_subscribers(arrays)
    order = _order_topics(arrays.partition_starts, subscribers.starts)
    return _assign(arrays, subscribers, order, ROUNDS_MAX)


def _order_topics(starts: Int32s, subscriber_starts: Int32s) -> Int32s:
    """Order the subscribed topics: most partitions per subscriber, fewest subscribers, index."""
    count = np.diff(subscriber_starts)
    topics = np.flatnonzero(count)
    count = count[topics]
    share = np.diff(starts)[topics] / count
    if len(topics) and not (np.all(share == share[0]) and np.all(count == count[0])):
        topics = topics[np.lexsort((count, -share))]
    return topics.astype(np.int32)


@kernel
def _assign(arrays: Arrays, subscribers: Subscribers, order: Int32s, rounds: int) -> Int32s:
    owner, load, unowned = keep_owners(arrays)
    state = Balance(
        owner,
        load,
        np.empty(len(load), np.int32),
        np.full(len(load), NOBODY, np.int32),
        np.empty(len(owner), np.int32),
        np.zeros(_COUNTING_SPAN_MAX + 2, np.int32),
        np.full(len(load), -1, np.int32),
        np.ones(len(unowned), np.bool_),
    )
    for topic in order:
        if unowned[topic]:
            _give_what_nobody_owns(arrays.partition_starts, subscribers, topic, state)
    shared = order[(subscribers.starts[order + 1] - subscribers.starts[order]) > 1]
    last = -1
    for turn in range(rounds):
        for place in range(len(shared)):
            topic = shared[place]
            if place == last:
                return owner
            moved = 0
            if state.stale[topic]:
                visit = turn * len(shared) + place
                moved = _balance_topic(arrays.partition_starts, subscribers, topic, state, visit)
                if moved > 0:
                    _mark_stale(arrays, subscribers, topic, state, visit)
            if moved > 0 or last == -1:
                last = place
    return owner


@inlined
def _mark_stale(
    arrays: Arrays, subscribers: Subscribers, topic: int, state: Balance, visit: int
) -> None:
    """Have all topics looked at again that members subscribe to whose load a visit has changed."""
    class_starts = arrays.class_starts
    marks = 0
    for at in range(subscribers.starts[topic], subscribers.starts[topic + 1]):
        member = subscribers.members[at]
        if state.changed[member] != visit:
            continue
        each = arrays.member_class[member]
        marks += class_starts[each + 1] - class_starts[each]
        if marks > len(state.stale):
            state.stale[:] = True
            return
        for place in range(class_starts[each], class_starts[each + 1]):
            state.stale[arrays.class_topics[place]] = True


@inlined
def _give_what_nobody_owns(
    starts: Int32s, subscribers: Subscribers, topic: int, state: Balance
) -> None:
    """Hand each partition of a topic that has no owner to the emptiest subscriber.

    The emptiest get one each in turn; when all have had one, those a level higher join them.
    """
    owner, load, ladder = state.owner, state.load, state.ladder
    members = subscribers.members[subscribers.starts[topic] : subscribers.starts[topic + 1]]
    low = high = load[members[0]]
    for member in members:
        low, high = min(low, load[member]), max(high, load[member])
    _sort_by_load(members, state, low, high)
    level, emptiest, turn = low - 1, 0, 0
    for partition in range(starts[topic], starts[topic + 1]):
        if owner[partition] == NOBODY:
            if turn == emptiest:
                level += 1
                while emptiest < len(members) and load[ladder[emptiest]] == level:
                    emptiest += 1
                turn = 0
            owner[partition] = ladder[turn]
            turn += 1
    for place in range(emptiest):
        load[ladder[place]] = level + (place < turn)


@inlined
def _balance_topic(
    starts: Int32s, subscribers: Subscribers, topic: int, state: Balance, visit: int
) -> int:
    """Move a topic's partitions from its fullest subscribers to its emptiest; count the moves."""
    load = state.load
    members = subscribers.members[subscribers.starts[topic] : subscribers.starts[topic + 1]]
    low = high = load[members[0]]
    for member in members:
        low, high = min(low, load[member]), max(high, load[member])
    state.stale[topic] = False
    if high - low <= 1:
        return 0
    _sort_by_load(members, state, low, high)
    owner, top, below = state.owner, state.top, state.below
    for partition in range(starts[topic], starts[topic + 1]):
        member = owner[partition]
        below[partition] = top[member]
        top[member] = partition
    moved = _even_out(state, len(members), visit)
    for member in members:
        top[member] = NOBODY
    return moved


@inlined
def _even_out(state: Balance, count: int, visit: int) -> int:
    """Let the upper end of the ladder give to the lower end until they are one apart.

    ``ladder[high_start:high_end]`` are the fullest, who give one each in turn, the last one first;
    then those a level lower join them. Who has nothing to give changes places with the last one and
    is left out. At the lower end it is as in ``_give_what_nobody_owns``.
    """
    owner, load, ladder, top = state.owner, state.load, state.ladder, state.top
    low_level, low_end, low_turn = load[ladder[0]] - 1, 0, 0
    high_level, high_start, high_end = load[ladder[count - 1]] + 1, count, count
    high_turn = count - 1
    moved = 0
    while True:
        if high_turn < high_start:
            if high_end <= high_start and high_start > 0:
                high_level = load[ladder[high_start - 1]]
            else:
                high_level -= 1
            while high_start > 0 and load[ladder[high_start - 1]] == high_level:
                high_start -= 1
            high_turn = high_end - 1
        if high_turn < 0:
            return moved
        giver = ladder[high_turn]
        if top[giver] == NOBODY:
            high_end -= 1
            ladder[high_turn], ladder[high_end] = ladder[high_end], giver
            high_turn -= 1
            continue
        high_turn -= 1
        if low_turn >= low_end:
            low_level += 1
            while low_end < count and load[ladder[low_end]] == low_level:
                low_end += 1
            low_turn = 0
        if high_level - low_level <= 1:
            return moved
        taker = ladder[low_turn]
        low_turn += 1
        partition = top[giver]
        top[giver] = state.below[partition]
        owner[partition] = taker
        load[giver] -= 1
        load[taker] += 1
        state.changed[giver] = state.changed[taker] = visit
        moved += 1


@inlined
def _sort_by_load(members: Int32s, state: Balance, low: int, high: int) -> None:
    """Fill the ladder with members sorted by load, then index; loads are from low to high."""
    load, ladder, counts = state.load, state.ladder, state.counts
    span, count = high - low, len(members)
    if span == 0:
        ladder[:count] = members
    elif count <= _INSERTION_MAX:
        for at in range(count):
            place = at
            while place > 0 and load[ladder[place - 1]] > load[members[at]]:
                ladder[place] = ladder[place - 1]
                place -= 1
            ladder[place] = members[at]
    elif span <= min(_COUNTING_SPAN_MAX, 8 * count + 64):
        counts[: span + 2] = 0
        for member in members:
            counts[load[member] - low + 1] += 1
        for level in range(span):
            counts[level + 1] += counts[level]
        for member in members:
            ladder[counts[load[member] - low]] = member
            counts[load[member] - low] += 1
    else:
        ladder[:count] = members[np.argsort(load[members], kind="mergesort")]
