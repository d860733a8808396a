"""Uniform for members that all subscribe to the same topics: every member gets its quota.

Members keep what they own up to their quota. The partitions that are left over when the quotas are
even go first to those that own more than the quota, so that as little as possible moves. What has
no owner goes to the members below their quota in order, member by member and topic by topic, as in
Kafka: a member has partitions of few topics, and its records stay small.
"""

from __future__ import annotations

import numpy as np

from protocol.assignors.kernels import kernel, writable
from protocol.assignors.spec import NOBODY, GroupSpec, Int32s


def assign_homogeneous(spec: GroupSpec, topics: Int32s) -> Int32s:
    """Give every partition of ``topics`` an owner."""
    subscribed = np.zeros(spec.topic_count, np.int32)
    subscribed[topics] = 1
    previous = writable(spec.previous_owner)
    starts = writable(spec.partition_starts)
    return _assign(starts, subscribed, previous, spec.member_count)


@kernel
def _assign(starts: Int32s, subscribed: Int32s, previous: Int32s, members: int) -> Int32s:
    room = np.zeros(members, np.int32)
    total = 0
    for topic in range(len(subscribed)):
        if subscribed[topic]:
            total += starts[topic + 1] - starts[topic]
            for partition in range(starts[topic], starts[topic + 1]):
                if previous[partition] != NOBODY:
                    room[previous[partition]] += 1
    _turn_into_room(room, total)
    owner = np.full(len(previous), NOBODY, np.int32)
    for topic in range(len(subscribed)):
        if subscribed[topic]:
            for partition in range(starts[topic], starts[topic + 1]):
                member = previous[partition]
                if member != NOBODY and room[member] > 0:
                    room[member] -= 1
                    owner[partition] = member
    _fill(starts, subscribed, owner, room)
    return owner


@kernel
def _turn_into_room(owned: Int32s, total: int) -> None:
    """Replace how many partitions each member owns by how many it may have."""
    quota, extra = total // len(owned), total % len(owned)
    for member in range(len(owned)):
        above = owned[member] > quota and extra > 0
        owned[member] = quota + above
        extra -= above
    for member in range(len(owned)):
        if extra > 0 and owned[member] == quota:
            owned[member] += 1
            extra -= 1


@kernel
def _fill(starts: Int32s, subscribed: Int32s, owner: Int32s, room: Int32s) -> None:
    member = 0
    for topic in range(len(subscribed)):
        if subscribed[topic]:
            for partition in range(starts[topic], starts[topic + 1]):
                if owner[partition] == NOBODY:
                    while room[member] == 0:
                        member += 1
                    owner[partition] = member
                    room[member] -= 1
