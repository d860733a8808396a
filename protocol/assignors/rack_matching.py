"""Matches the partitions of a topic with racks of their replicas, for assignments that stay even.

What each member gets of a topic is given. A partition is *near* a member on a rack of one of its
replicas. Of all ways to hand out a topic's partitions in these numbers, one with the most near
partitions is found: a maximum matching of partitions with racks, along augmenting paths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from protocol.assignors.extras import Extras, give
from protocol.assignors.kernels import kernel, writable
from protocol.assignors.spec import NOBODY, Bools, GroupSpec, Int32s
from protocol.assignors.subscribers import Arrays, Subscribers


class Racks(NamedTuple):
    """The racks with members, numbered from 0 to below ``size``.

    ``member_rack`` (M): the rack of each member or ``NOBODY``. ``starts`` (P + 1), ``racks``: CSR,
    the racks with members that have a replica of each partition.
    """

    member_rack: Int32s
    starts: Int32s
    racks: Int32s
    size: int


class TopicMatch(NamedTuple):
    """A topic's partitions, from ``first`` to below ``end``, and which are matched with racks.

    ``matched`` (P): the rack that each partition is matched with, or ``NOBODY``.
    """

    racks: Racks
    matched: Int32s
    first: int
    end: int


def racks_of(spec: GroupSpec) -> Racks:
    """Return the racks with members; replicas on other racks are left out."""
    names = np.unique(spec.member_rack[spec.member_rack != NOBODY])
    place = np.minimum(np.searchsorted(names, spec.partition_racks), len(names) - 1)
    has_members = names[place] == spec.partition_racks
    partitions = np.repeat(np.arange(spec.partition_count), np.diff(spec.rack_starts))
    sizes = np.bincount(partitions[has_members], minlength=spec.partition_count)
    member_rack = np.where(
        spec.member_rack == NOBODY, NOBODY, np.searchsorted(names, spec.member_rack)
    )
    return Racks(
        writable(member_rack),
        writable(np.concatenate([[0], np.cumsum(sizes)])),
        writable(place[has_members]),
        len(names),
    )


@kernel
def is_near(owner: Int32s, racks: Racks) -> Bools:
    """Return per partition whether its owner is on a rack of one of its replicas."""
    near = np.zeros(len(owner), np.bool_)
    for partition in range(len(owner)):
        if owner[partition] != NOBODY:
            rack = racks.member_rack[owner[partition]]
            near[partition] = rack != NOBODY and _has_rack(racks, partition, rack)
    return near


@kernel
def _has_rack(racks: Racks, partition: int, rack: int) -> bool:
    for at in range(racks.starts[partition], racks.starts[partition + 1]):
        if racks.racks[at] == rack:
            return True
    return False


@kernel
def give_near(arrays: Arrays, subscribers: Subscribers, extras: Extras, racks: Racks) -> None:
    """Give extras to subscribers on racks where one more partition is near."""
    starts, first_of = arrays.partition_starts, subscribers.starts
    matched = np.full(len(arrays.previous_owner), NOBODY, np.int32)
    for number in range(len(starts) - 1):
        if extras.left[number] == 0:
            continue
        first, end = first_of[number], first_of[number + 1]
        topic = TopicMatch(racks, matched, starts[number], starts[number + 1])
        all_get = (topic.end - topic.first) // (end - first)
        room = np.zeros(racks.size, np.int32)
        without = np.zeros(racks.size, np.int32)
        for edge in range(first, end):
            rack = racks.member_rack[subscribers.members[edge]]
            if rack != NOBODY:
                room[rack] += all_get + extras.is_given[edge]
                without[rack] += not extras.is_given[edge]
        _match(topic, room)
        wanted = _match_more(topic, extras.left[number], without)
        for rack in range(racks.size):
            if wanted[rack]:
                is_eligible = racks.member_rack[subscribers.members[first:end]] == rack
                give(subscribers, extras, number, wanted[rack], is_eligible)


@kernel
def _match(topic: TopicMatch, room: Int32s) -> None:
    """Match as many partitions as possible with racks; ``room`` is what the racks have left."""
    dead = np.zeros(len(room), np.bool_)
    for partition in range(topic.first, topic.end):
        if topic.matched[partition] == NOBODY:
            _augment(topic, partition, room, dead)


@kernel
def _match_more(topic: TopicMatch, count: int, without: Int32s) -> Int32s:
    """Match up to ``count`` more partitions, each of which takes an extra on the rack it fills.

    ``without``: how many subscribers on each rack have no extra. Return the extras of each rack.
    """
    wanted = np.zeros(len(without), np.int32)
    room = without.copy()
    dead = np.zeros(len(without), np.bool_)
    for partition in range(topic.first, topic.end):
        if count > 0 and topic.matched[partition] == NOBODY:
            rack = _augment(topic, partition, room, dead)
            if rack != NOBODY:
                wanted[rack] += 1
                count -= 1
    return wanted


@kernel
def _augment(topic: TopicMatch, partition: int, room: Int32s, dead: Bools) -> int:
    """Match a partition, moving others to other racks if needed; return the rack that fills up.

    Racks from which no room can be reached are marked in ``dead``; they stay so.
    """
    from_partition = np.full(len(room), NOBODY, np.int32)
    queue = np.empty(len(room), np.int32)
    written = _reach(topic, partition, from_partition, queue, 0, dead)
    read = 0
    while read < written:
        rack = queue[read]
        read += 1
        if room[rack] > 0:
            room[rack] -= 1
            _rematch(topic.matched, from_partition, partition, rack)
            return int(rack)
        for other in range(topic.first, topic.end):
            if topic.matched[other] == rack:
                written = _reach(topic, other, from_partition, queue, written, dead)
    for place in range(written):
        dead[queue[place]] = True
    return NOBODY


@kernel
def _reach(  # noqa: PLR0913, PLR0917 - the state of one search
    topic: TopicMatch,
    partition: int,
    from_partition: Int32s,
    queue: Int32s,
    written: int,
    dead: Bools,
) -> int:
    """Add the racks that a partition could be matched with to the queue; return its new length."""
    for at in range(topic.racks.starts[partition], topic.racks.starts[partition + 1]):
        rack = topic.racks.racks[at]
        if from_partition[rack] == NOBODY and not dead[rack]:
            from_partition[rack] = partition
            queue[written] = rack
            written += 1
    return written


@kernel
def _rematch(matched: Int32s, from_partition: Int32s, partition: int, rack: int) -> None:
    """Match each partition on the path from ``partition`` to ``rack`` with the next rack."""
    while True:
        each = from_partition[rack]
        before = matched[each]
        matched[each] = rack
        if each == partition:
            return
        rack = before


@kernel
def owners_by_racks(
    arrays: Arrays, subscribers: Subscribers, extras: Extras, racks: Racks
) -> Int32s:
    """Hand out each topic's partitions: near ones first, and to previous owners where possible."""
    starts, previous = arrays.partition_starts, arrays.previous_owner
    owner = np.full(len(previous), NOBODY, np.int32)
    matched = np.full(len(previous), NOBODY, np.int32)
    room = np.zeros(len(extras.load), np.int32)
    for number in range(len(starts) - 1):
        first, end = subscribers.starts[number], subscribers.starts[number + 1]
        if first == end:
            continue
        members = subscribers.members[first:end]
        topic = TopicMatch(racks, matched, starts[number], starts[number + 1])
        gets = (topic.end - topic.first) // (end - first) + extras.is_given[first:end]
        room[members] = gets
        _match(topic, _match_previous(topic, previous, members, room))
        room[members] = gets
        _keep(topic, previous, owner, room)
        _deal_near(topic, members, owner, room)
        for partition in range(topic.first, topic.end):
            member = previous[partition]
            if owner[partition] == NOBODY and member != NOBODY and room[member] > 0:
                owner[partition] = member
                room[member] -= 1
        _deal(topic, members, owner, room)
        room[members] = 0
    return owner


@kernel
def _match_previous(topic: TopicMatch, previous: Int32s, members: Int32s, room: Int32s) -> Int32s:
    """Match partitions that are near their previous owners; return the room left on each rack."""
    racks = topic.racks
    left = np.zeros(racks.size, np.int32)
    for member in members:
        if racks.member_rack[member] != NOBODY:
            left[racks.member_rack[member]] += room[member]
    for partition in range(topic.first, topic.end):
        member = previous[partition]
        if member == NOBODY or room[member] == 0 or racks.member_rack[member] == NOBODY:
            continue
        if _has_rack(racks, partition, racks.member_rack[member]):
            topic.matched[partition] = racks.member_rack[member]
            left[topic.matched[partition]] -= 1
            room[member] -= 1
    return left


@kernel
def _keep(topic: TopicMatch, previous: Int32s, owner: Int32s, room: Int32s) -> None:
    """Leave matched partitions with previous owners on the rack that they are matched with."""
    for partition in range(topic.first, topic.end):
        member = previous[partition]
        if topic.matched[partition] == NOBODY or member == NOBODY or room[member] == 0:
            continue
        if topic.racks.member_rack[member] == topic.matched[partition]:
            owner[partition] = member
            room[member] -= 1


@kernel
def _deal_near(topic: TopicMatch, members: Int32s, owner: Int32s, room: Int32s) -> None:
    """Deal matched partitions to the subscribers on their racks, in order."""
    place = np.zeros(topic.racks.size, np.int32)
    for partition in range(topic.first, topic.end):
        rack = topic.matched[partition]
        if rack == NOBODY or owner[partition] != NOBODY:
            continue
        member = members[place[rack]]
        while topic.racks.member_rack[member] != rack or room[member] == 0:
            place[rack] += 1
            member = members[place[rack]]
        owner[partition] = member
        room[member] -= 1


@kernel
def _deal(topic: TopicMatch, members: Int32s, owner: Int32s, room: Int32s) -> None:
    """Deal the other partitions to the subscribers with room, in order."""
    place = 0
    for partition in range(topic.first, topic.end):
        if owner[partition] == NOBODY:
            while room[members[place]] == 0:
                place += 1
            owner[partition] = members[place]
            room[members[place]] -= 1
