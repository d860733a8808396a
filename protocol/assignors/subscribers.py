"""The subscribers of each topic, from the subscriptions of the classes; and the present owners."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from protocol.assignors.kernels import kernel, writable
from protocol.assignors.spec import NOBODY, GroupSpec, Int32s


class Arrays(NamedTuple):
    """The arrays of a spec that kernels read, all writable; the names are GroupSpec's."""

    partition_starts: Int32s
    class_starts: Int32s
    class_topics: Int32s
    member_class: Int32s
    previous_owner: Int32s


class Subscribers(NamedTuple):
    """CSR: the members that subscribe to each topic, ascending."""

    starts: Int32s
    members: Int32s


def arrays_of(spec: GroupSpec) -> Arrays:
    """Return the arrays that every kernel reads."""
    return Arrays(*(writable(getattr(spec, name)) for name in Arrays._fields))


def populated_classes(spec: GroupSpec) -> Int32s:
    """Return the classes with members, ascending; only the first if all have the same topics."""
    counts = np.bincount(spec.member_class, minlength=spec.class_count)
    found = np.flatnonzero(counts).astype(np.int32)
    if len(found) > 1:
        starts, ends = spec.class_starts[found], spec.class_starts[found + 1]
        if np.all(ends - starts == ends[0] - starts[0]):
            first = spec.class_topics[starts[0] : ends[0]]
            if all(
                np.array_equal(first, spec.class_topics[start:end])
                for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
            ):
                return found[:1]
    return found


@kernel
def find_subscribers(arrays: Arrays) -> Subscribers:
    """Invert "topics of each member" to "members of each topic"."""
    class_starts, class_topics = arrays.class_starts, arrays.class_topics
    topics = len(arrays.partition_starts) - 1
    sizes = np.zeros(len(class_starts) - 1, np.int32)
    for member in range(len(arrays.member_class)):
        sizes[arrays.member_class[member]] += 1
    starts = np.zeros(topics + 1, np.int32)
    for each in range(len(sizes)):
        for at in range(class_starts[each], class_starts[each + 1]):
            starts[class_topics[at] + 1] += sizes[each]
    for topic in range(topics):
        starts[topic + 1] += starts[topic]
    members = np.empty(starts[topics], np.int32)
    cursor = starts[:-1].copy()
    for member in range(len(arrays.member_class)):
        each = arrays.member_class[member]
        for at in range(class_starts[each], class_starts[each + 1]):
            topic = class_topics[at]
            members[cursor[topic]] = member
            cursor[topic] += 1
    return Subscribers(starts, members)


@kernel
def keep_owners(arrays: Arrays) -> tuple[Int32s, Int32s, Int32s]:
    """Leave each partition with its owner if that still subscribes.

    Return the owners, the number of partitions of each member, and the number of partitions of each
    topic without an owner.
    """
    starts, member_class = arrays.partition_starts, arrays.member_class
    class_starts, class_topics = arrays.class_starts, arrays.class_topics
    topics, classes = len(starts) - 1, len(class_starts) - 1
    subscribes = np.zeros((topics, (classes >> 3) + 1), np.uint8)  # a bit per class: it stays small
    for each in range(classes):
        for at in range(class_starts[each], class_starts[each + 1]):
            subscribes[class_topics[at], each >> 3] |= np.uint8(1 << (each & 7))
    owner = np.full(len(arrays.previous_owner), NOBODY, np.int32)
    load = np.zeros(len(member_class), np.int32)
    unowned = np.zeros(topics, np.int32)
    for topic in range(topics):
        row = subscribes[topic]
        gone = 0
        for partition in range(starts[topic], starts[topic + 1]):
            member = arrays.previous_owner[partition]
            if member == NOBODY:
                gone += 1
                continue
            each = member_class[member]
            if row[each >> 3] >> (each & 7) & 1:
                owner[partition] = member
                load[member] += 1
            else:
                gone += 1
        unowned[topic] = gone
    return owner, load, unowned
