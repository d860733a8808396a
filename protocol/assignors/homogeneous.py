"""Uniform for members that all subscribe to the same topics: every member gets its quota.

Members keep what they own up to their quota. When the division leaves a remainder, members that own
more than the quota get the extra partitions first, so that as few as possible move. Partitions
without an owner go to the members below their quota in order, member by member and topic by topic,
as in Kafka: a member then has partitions of few topics, and its records stay small.
"""

from __future__ import annotations

import numpy as np

from protocol.assignors.kernels import kernel, writable
from protocol.assignors.spec import NOBODY, GroupSpec, Int32s


def assign_homogeneous(spec: GroupSpec, topics: Int32s) -> Int32s:
    """Assign an owner to every partition of ``topics``."""
    starts = writable(spec.partition_starts)
    previous = writable(spec.previous_owner)
    if len(topics) == spec.topic_count:
        return _assign(previous, spec.member_count)
    wanted = np.zeros(spec.topic_count, np.bool_)
    wanted[topics] = True
    is_wanted = np.repeat(wanted, np.diff(starts))
    owner = np.full(len(previous), NOBODY, np.int32)
    owner[is_wanted] = _assign(previous[is_wanted], spec.member_count)
    return owner


@kernel
def _assign(previous: Int32s, members: int) -> Int32s:
    room = np.zeros(members, np.int32)
    _count(previous, room)
    _turn_into_room(room, len(previous))
    owner = np.empty(len(previous), np.int32)
    left = len(previous) - _keep(previous, room, owner)
    member = 0
    partition = 0
    while left:
        if owner[partition] == NOBODY:
            while room[member] == 0:
                member += 1
            owner[partition] = member
            room[member] -= 1
            left -= 1
        partition += 1
    return owner


@kernel
def _count(previous: Int32s, owned: Int32s) -> None:
    """Count each member's partitions, run by run: adjacent partitions often have one owner."""
    member, run = NOBODY, 0
    for owner in previous:
        if owner == member:
            run += 1
        else:
            if member != NOBODY:
                owned[member] += run
            member, run = owner, 1
    if member != NOBODY:
        owned[member] += run


@kernel
def _keep(previous: Int32s, room: Int32s, owner: Int32s) -> int:
    """Leave partitions with their owners while those have room; return how many."""
    member, left, kept = NOBODY, 0, 0
    for partition in range(len(previous)):
        if previous[partition] != member:
            if member != NOBODY:
                room[member] = left
            member = previous[partition]
            left = room[member] if member != NOBODY else 0
        if left > 0:
            owner[partition] = member
            left -= 1
            kept += 1
        else:
            owner[partition] = NOBODY
    if member != NOBODY:
        room[member] = left
    return kept


@kernel
def _turn_into_room(owned: Int32s, total: int) -> None:
    """Replace the number of partitions that each member owns by the number that it may have."""
    quota, extra = total // len(owned), total % len(owned)
    for member in range(len(owned)):
        above = owned[member] > quota and extra > 0
        owned[member] = quota + above
        extra -= above
    for member in range(len(owned)):
        if extra > 0 and owned[member] == quota:
            owned[member] += 1
            extra -= 1
