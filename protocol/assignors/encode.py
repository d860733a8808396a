"""Encodes target assignments as the bytes of their records, directly from the array of owners.

The result is one ``ConsumerGroupTargetAssignmentMemberValue`` per member, with exactly the bytes
that :mod:`protocol.records` writes, topics by id and partitions ascending.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from protocol.assignors.kernels import kernel, writable
from protocol.assignors.spec import NOBODY, GroupSpec, Int32s, SharedAssignment

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, eq=False)
class EncodedTargets:
    """The values of some members: that of ``members[i]`` is ``buffer[starts[i]:starts[i + 1]]``."""

    members: Int32s
    buffer: bytes
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of members."""
        return len(self.members)

    def values(self) -> Iterator[bytes]:
        """Iterate over each member's value."""
        starts = self.starts.tolist()
        for place in range(len(self.members)):
            yield self.buffer[starts[place] : starts[place + 1]]


def changed_members(spec: GroupSpec, owner: Int32s) -> Int32s:
    """Return the members that have lost or gained a partition, ascending."""
    moved = spec.previous_owner != owner
    changed = np.zeros(spec.member_count + 1, np.bool_)
    changed[spec.previous_owner[moved]] = True
    changed[owner[moved]] = True
    return np.flatnonzero(changed[:-1]).astype(np.int32)


def encode_targets(
    spec: GroupSpec, owner: Int32s, topic_ids: bytes, members: Int32s | None = None
) -> EncodedTargets:
    """Encode the target assignments of ``members`` (ascending); None: of all members.

    ``topic_ids`` are the 16 bytes of each topic's id, one after the other.
    """
    if members is None:
        members = np.arange(spec.member_count, dtype=np.int32)
    wanted = np.zeros(spec.member_count, np.bool_)
    wanted[members] = True
    ids = np.frombuffer(bytearray(topic_ids), np.uint8)
    starts = writable(spec.partition_starts)
    listed, first = _list_by_owner(starts, writable(owner), wanted)
    ends = _write_sizes(listed, first, writable(members))
    buffer = np.empty(int(ends[-1]), np.uint8)
    _write(ids, listed, (first, writable(members), ends), buffer)
    return EncodedTargets(members, buffer.tobytes(), ends)


def encode_shared(spec: GroupSpec, shared: SharedAssignment, topic_ids: bytes) -> EncodedTargets:
    """Encode the target assignments of all members where a partition may have several owners."""
    members = np.arange(spec.member_count, dtype=np.int32)
    topics = np.searchsorted(spec.partition_starts, shared.partitions, side="right") - 1
    listed = np.empty((len(shared.partitions), 2), np.int32)
    listed[:, 0] = topics
    listed[:, 1] = shared.partitions - spec.partition_starts[topics]
    ids = np.frombuffer(bytearray(topic_ids), np.uint8)
    first = writable(shared.member_starts)
    ends = _write_sizes(listed, first, members)
    buffer = np.empty(int(ends[-1]), np.uint8)
    _write(ids, listed, (first, members, ends), buffer)
    return EncodedTargets(members, buffer.tobytes(), ends)


@kernel
def _list_by_owner(
    starts: Int32s, owner: Int32s, wanted: NDArray[np.bool_]
) -> tuple[Int32s, Int32s]:
    """Return topics and partitions, member by member, and where each member's begin."""
    first = np.zeros(len(wanted) + 1, np.int32)
    for member in owner:
        if member != NOBODY and wanted[member]:
            first[member + 1] += 1
    for member in range(len(wanted)):
        first[member + 1] += first[member]
    listed = np.empty((first[len(wanted)], 2), np.int32)
    cursor = first[:-1].copy()
    for topic in range(len(starts) - 1):
        for partition in range(starts[topic], starts[topic + 1]):
            member = owner[partition]
            if member != NOBODY and wanted[member]:
                listed[cursor[member], 0] = topic
                listed[cursor[member], 1] = partition - starts[topic]
                cursor[member] += 1
    return listed, first


@kernel
def _varint_size(number: int) -> int:
    size = 1
    while number >= 128:
        number >>= 7
        size += 1
    return size


@kernel
def _write_varint(number: int, buffer: NDArray[np.uint8], at: int) -> int:
    while number >= 128:
        buffer[at] = (number & 127) | 128
        number >>= 7
        at += 1
    buffer[at] = number
    return at + 1


@kernel
def _write_sizes(listed: Int32s, first: Int32s, members: Int32s) -> NDArray[np.int64]:
    """Return where each member's value begins, and where the last one ends."""
    ends = np.zeros(len(members) + 1, np.int64)
    for place in range(len(members)):
        at, end = first[members[place]], first[members[place] + 1]
        topics, size = 0, 3
        while at < end:
            after = at
            while after < end and listed[after, 0] == listed[at, 0]:
                after += 1
            topics += 1
            size += 17 + _varint_size(after - at + 1) + 4 * (after - at)
            at = after
        ends[place + 1] = ends[place] + size + _varint_size(topics + 1)
    return ends


@kernel
def _write(
    topic_ids: NDArray[np.uint8],
    listed: Int32s,
    places: tuple[Int32s, Int32s, NDArray[np.int64]],
    buffer: NDArray[np.uint8],
) -> None:
    """Write version 0, then an array of topics, each with its id and an array of partitions."""
    first, members, ends = places
    for place in range(len(members)):
        at, end = first[members[place]], first[members[place] + 1]
        topics = 0
        for each in range(at, end):
            topics += each == at or listed[each, 0] != listed[each - 1, 0]
        to = ends[place]
        buffer[to] = buffer[to + 1] = 0
        to = _write_varint(topics + 1, buffer, to + 2)
        while at < end:
            topic, after = listed[at, 0], at
            while after < end and listed[after, 0] == topic:
                after += 1
            buffer[to : to + 16] = topic_ids[16 * topic : 16 * topic + 16]
            to = _write_varint(after - at + 1, buffer, to + 16)
            for each in range(at, after):
                partition = listed[each, 1]
                for shift in range(4):
                    buffer[to + shift] = (partition >> (24 - 8 * shift)) & 255
                to += 4
            buffer[to] = 0  # no tagged fields
            to += 1
            at = after
        buffer[to] = 0
