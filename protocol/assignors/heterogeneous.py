"""Uniform for members with different subscriptions.

The order of decisions is Kafka's, so that the result is never less balanced and moves no more
partitions. Owners keep the partitions that they still subscribe to. Partitions without an owner go
to the subscriber with the fewest partitions, topic by topic, those with the most partitions per
subscriber first. Then partitions of a topic move from the fullest subscribers to the emptiest,
topic by topic and round by round, until nothing improves. Ties go to the lower member index.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.assignors.kernels import inlined, kernel, uncounted
from protocol.assignors.spec import GroupSpec, Int32s
from protocol.assignors.subscribers import (
    Arrays,
    Subscribers,
    arrays_of,
    find_subscribers,
    keep_owners,
)

UInt32s: TypeAlias = NDArray[np.uint32]
"""The inner loops use unsigned indexes: a negative index would count from the end, and the check
for that takes a third of the time."""

ROUNDS_MAX: Final = 16
"""As in Kafka: a chain of overlapping subscriptions improves only slowly after that."""
_DIGIT_BITS: Final = 8
_DIGITS: Final = 1 << _DIGIT_BITS
"""Members whose loads differ by very much are sorted digit by digit."""
_NO_OWNER: Final = np.uint32(0xFFFF_FFFF)
"""NOBODY as an unsigned number."""


class Edges(NamedTuple):
    """The subscriptions: the arrays of Arrays and Subscribers, unsigned."""

    partition_starts: UInt32s
    class_starts: UInt32s
    class_topics: UInt32s
    member_class: UInt32s
    topic_starts: UInt32s
    members: UInt32s


class Balance(NamedTuple):
    """The arrays that the balancing of one topic after the other reads and writes.

    ``owner`` per partition, ``load`` per member. ``ladder``: the topic's subscribers, emptiest
    first; ``spare``: space for as many. ``top``: per member the next of the topic's partitions that
    it can give, ``below``: per partition the one after that (a list per owner, highest partition
    first). ``counts``: space for counting. ``changed`` per member: the last visit to a topic that
    changed its load. ``stale`` per topic: a subscriber's load has changed since the topic was
    balanced, so visit it again.
    """

    owner: UInt32s
    load: Int32s
    ladder: UInt32s
    spare: UInt32s
    top: UInt32s
    below: UInt32s
    counts: UInt32s
    changed: Int32s
    stale: NDArray[np.bool_]


def assign_heterogeneous(spec: GroupSpec) -> Int32s:
    """Assign an owner to every partition of a subscribed topic."""
    arrays = arrays_of(spec)
    subscribers = find_subscribers(arrays)
    order = _order_topics(arrays.partition_starts, subscribers.starts)
    return _assign(arrays, subscribers, order, ROUNDS_MAX)


def _order_topics(starts: Int32s, subscriber_starts: Int32s) -> Int32s:
    """Sort the subscribed topics: most partitions per subscriber, fewest subscribers, index."""
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
    members = len(load)
    edges = Edges(
        arrays.partition_starts.view(np.uint32),
        arrays.class_starts.view(np.uint32),
        arrays.class_topics.view(np.uint32),
        arrays.member_class.view(np.uint32),
        subscribers.starts.view(np.uint32),
        subscribers.members.view(np.uint32),
    )
    state = Balance(
        owner.view(np.uint32),
        load,
        np.empty(members, np.uint32),
        np.empty(members, np.uint32),
        np.full(members, _NO_OWNER, np.uint32),
        np.empty(len(owner), np.uint32),
        np.zeros(_levels_max(members), np.uint32),
        np.full(members, -1, np.int32),
        np.ones(len(unowned), np.bool_),
    )
    topics = order.view(np.uint32)
    _give_what_nobody_owns(edges, topics, unowned, state)
    is_shared = (subscribers.starts[order + 1] - subscribers.starts[order]) > 1
    _balance(edges, topics[is_shared], rounds, state)
    return owner


@uncounted
def _give_what_nobody_owns(edges: Edges, topics: UInt32s, unowned: Int32s, state: Balance) -> None:
    for topic in topics:
        if unowned[topic]:
            _give(edges, topic, state)


@inlined
def _give(edges: Edges, topic: np.uint32, state: Balance) -> None:
    """Assign each partition of a topic that has no owner to the emptiest subscriber.

    The emptiest get one each in turn; when all have one more, those with that load join them.
    """
    owner, load, ladder = state.owner, state.load, state.ladder
    low, high, count = _loads(edges, topic, load)
    _sort_by_load(edges, topic, state, low, high)
    level, emptiest, turn = low - 1, 0, 0
    first, end = _row(edges.partition_starts, topic)
    for partition in range(first, end):
        if owner[partition] == _NO_OWNER:
            if turn == emptiest:
                level += 1
                while emptiest < count and load[ladder[emptiest]] == level:
                    emptiest += 1
                turn = 0
            owner[partition] = ladder[turn]
            turn += 1
    for place in range(emptiest):
        load[ladder[place]] = level + (place < turn)


@uncounted
def _balance(edges: Edges, topics: UInt32s, rounds: int, state: Balance) -> None:
    """Balance one topic after the other, until a whole round changes nothing."""
    last = -1
    for turn in range(rounds):
        for place in range(len(topics)):
            topic = topics[place]
            if place == last:
                return
            moved = 0
            if state.stale[topic]:
                visit = turn * len(topics) + place
                moved = _balance_topic(edges, topic, state, visit)
                if moved > 0:
                    _mark_stale(edges, topic, state, visit)
            if moved > 0 or last == -1:
                last = place


@inlined
def _mark_stale(edges: Edges, topic: np.uint32, state: Balance, visit: int) -> None:
    """Mark all topics stale that have a subscriber whose load this visit has changed."""
    marks = np.uint64(0)
    first, end = _row(edges.topic_starts, topic)
    for at in range(first, end):
        member = edges.members[at]
        if state.changed[member] != visit:
            continue
        first_topic, last_topic = _row(edges.class_starts, edges.member_class[member])
        marks += last_topic - first_topic
        if marks > len(state.stale):
            state.stale[:] = True
            return
        for place in range(first_topic, last_topic):
            state.stale[edges.class_topics[place]] = True


@inlined
def _balance_topic(edges: Edges, topic: np.uint32, state: Balance, visit: int) -> int:
    """Move a topic's partitions from its fullest subscribers to its emptiest; count the moves."""
    state.stale[topic] = False
    low, high, count = _loads(edges, topic, state.load)
    if high - low <= 1:
        return 0
    _sort_by_load(edges, topic, state, low, high)
    owner, top, below = state.owner, state.top, state.below
    first, end = _row(edges.partition_starts, topic)
    for partition in range(first, end):
        member = owner[partition]
        below[partition] = top[member]
        top[member] = partition
    moved = _even_out(state, count, visit)
    first, end = _row(edges.topic_starts, topic)
    for at in range(first, end):
        top[edges.members[at]] = _NO_OWNER
    return moved


@inlined
def _even_out(state: Balance, count: np.int64, visit: int) -> int:
    """Let the upper end of the ladder give to the lower end until they differ by one.

    ``ladder[high_start:high_end]`` are the fullest, who give one each in turn, the last one first;
    then those with one partition less join them. A member with nothing to give is swapped with the
    last one and left out. The lower end works as in ``_give_what_nobody_owns``.
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
        if top[giver] == _NO_OWNER:
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
def _row(starts: UInt32s, row: np.uint32) -> tuple[np.uint32, np.uint32]:
    return starts[row], starts[row + np.uint32(1)]


@inlined
def _loads(edges: Edges, topic: np.uint32, load: Int32s) -> tuple[int, int, np.int64]:
    """Return the least and the greatest load of a topic's subscribers, and their number."""
    first, end = _row(edges.topic_starts, topic)
    low = high = load[edges.members[first]]
    for at in range(first, end):
        each = load[edges.members[at]]
        low, high = min(low, each), max(high, each)
    return low, high, np.int64(end) - np.int64(first)


@inlined
def _sort_by_load(edges: Edges, topic: np.uint32, state: Balance, low: int, high: int) -> None:
    """Fill the ladder with members sorted by load, then index; loads are from low to high."""
    first, end = _row(edges.topic_starts, topic)
    listed, spare = edges.members[first:end], state.spare[: end - first]
    span = high - low
    if span < _levels_max(len(listed)):
        _sort_by_digit(listed, state, low, (0, -1, span + 1))
    else:
        for shift in range(0, 32, _DIGIT_BITS):
            if span >> shift:
                _sort_by_digit(listed, state, low, (shift, _DIGITS - 1, _DIGITS))
                for place in range(len(spare)):
                    spare[place] = state.ladder[place]
                listed = spare


@inlined
def _levels_max(members: int) -> int:
    """Return up to how many different loads this many members are sorted in one pass."""
    return 8 * members + _DIGITS


@inlined
def _sort_by_digit(listed: UInt32s, state: Balance, low: int, digit: tuple[int, int, int]) -> None:
    """Sort members onto the ladder by one digit of their loads above ``low``, stably.

    ``digit``: the number of bits to shift by, the bit mask, and the number of digits.
    """
    load, ladder, counts = state.load, state.ladder, state.counts
    shift, mask, digits = digit
    counts[:digits] = 0
    for member in listed:
        counts[(load[member] - low) >> shift & mask] += np.uint32(1)
    before = np.uint32(0)
    for each in range(digits):
        here = counts[each]
        counts[each] = before
        before += here
    for member in listed:
        each = (load[member] - low) >> shift & mask
        ladder[counts[each]] = member
        counts[each] += np.uint32(1)
