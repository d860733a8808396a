"""Moves extras along chains of topics: what one direct move cannot even out.

A member with two partitions more than another may share no topic with it, but a third member may
share one with each. An extra of the one topic and an extra of the other then move at once. When no
such chain is left, no other choice of extras has more even totals (the sum of their squares is the
least possible).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from protocol.assignors.extras import Extras, swap
from protocol.assignors.kernels import kernel
from protocol.assignors.spec import Bools, Int32s
from protocol.assignors.subscribers import Arrays, Subscribers

STEPS_MAX: Final = 40_000_000
"""How many edges are looked at, about 0.2 s. Beyond it, totals stay as even as they are."""


class MemberEdges(NamedTuple):
    """CSR: the edges of each member, and their topics."""

    starts: Int32s
    edges: Int32s
    topics: Int32s


class Search(NamedTuple):
    """What a search for a chain has found, and whom it has seen.

    ``taken`` (M): the edge by which a member would get an extra; ``given`` (T): the edge by which a
    topic's extra would leave its holder. ``queue``, ``topics``: members and topics as they were
    seen.
    """

    taken: Int32s
    given: Int32s
    queue: Int32s
    topics: Int32s
    has_seen: Bools
    has_seen_topic: Bools


@kernel
def move_along_chains(
    arrays: Arrays, subscribers: Subscribers, extras: Extras, steps_max: int
) -> None:
    """Move extras along chains until that improves nothing, or for ``steps_max`` steps."""
    members, topics = len(extras.load), len(extras.left)
    if members == 0 or extras.load.max() - extras.load.min() <= 1:
        return
    edges = _edges_of_members(arrays, subscribers)
    search = Search(
        np.empty(members, np.int32),
        np.empty(topics, np.int32),
        np.empty(members, np.int32),
        np.empty(topics, np.int32),
        np.zeros(members, np.bool_),
        np.zeros(topics, np.bool_),
    )
    steps = 0
    level = extras.load.max() + 1
    while steps < steps_max:
        below = np.int32(-1)
        for member in range(members):
            if extras.load[member] < level and not search.has_seen[member]:
                below = max(below, extras.load[member])
        level = below
        if level - extras.load.min() <= 1:
            return
        for root in range(members):
            if extras.load[root] == level and not search.has_seen[root] and steps < steps_max:
                steps += _search(subscribers, extras, edges, search, root)
        steps += members


@kernel
def _search(
    subscribers: Subscribers, extras: Extras, edges: MemberEdges, search: Search, root: int
) -> int:
    """Move an extra from ``root`` along a chain if there is one; return the steps that it took.

    What a search without success has seen stays seen. Nobody outside can get there from a higher
    load, and a chain outside does not change what can be reached from inside.
    """
    search.queue[0] = root
    search.has_seen[root] = True
    read, written, topics, steps = 0, 1, 0, 0
    while read < written:
        member = search.queue[read]
        read += 1
        for place in range(edges.starts[member], edges.starts[member + 1]):
            steps += 1
            topic = edges.topics[place]
            if search.has_seen_topic[topic] or not extras.is_given[edges.edges[place]]:
                continue
            search.has_seen_topic[topic] = True
            search.topics[topics] = topic
            topics += 1
            search.given[topic] = edges.edges[place]
            for edge in range(subscribers.starts[topic], subscribers.starts[topic + 1]):
                steps += 1
                taker = subscribers.members[edge]
                if search.has_seen[taker] or extras.is_given[edge]:
                    continue
                search.has_seen[taker] = True
                search.taken[taker] = edge
                search.queue[written] = taker
                written += 1
                if extras.load[taker] <= extras.load[root] - 2:
                    _move_chain(subscribers, extras, search, root, taker)
                    for at in range(written):
                        search.has_seen[search.queue[at]] = False
                    for at in range(topics):
                        search.has_seen_topic[search.topics[at]] = False
                    return steps
    return steps


@kernel
def _edges_of_members(arrays: Arrays, subscribers: Subscribers) -> MemberEdges:
    """Invert "members of each topic" to "topics of each member"."""
    members = len(arrays.member_class)
    starts = np.zeros(members + 1, np.int32)
    for member in subscribers.members:
        starts[member + 1] += 1
    for member in range(members):
        starts[member + 1] += starts[member]
    edges = np.empty(len(subscribers.members), np.int32)
    topics = np.empty(len(subscribers.members), np.int32)
    cursor = starts[:-1].copy()
    for topic in range(len(subscribers.starts) - 1):
        for edge in range(subscribers.starts[topic], subscribers.starts[topic + 1]):
            member = subscribers.members[edge]
            edges[cursor[member]] = edge
            topics[cursor[member]] = topic
            cursor[member] += 1
    return MemberEdges(starts, edges, topics)


@kernel
def _move_chain(
    subscribers: Subscribers, extras: Extras, search: Search, root: int, last: int
) -> None:
    """Move each extra of the chain that ends at ``last``."""
    member = last
    while member != root:
        taker = search.taken[member]
        topic = np.searchsorted(subscribers.starts, taker, side="right") - 1
        giver = search.given[topic]
        swap(subscribers, extras, giver, taker)
        member = subscribers.members[giver]
