"""Decodes target assignments from the bytes of their records into one array of owners.

The reverse of :mod:`protocol.assignors.encode`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from protocol.assignors.kernels import kernel, writable
from protocol.assignors.spec import NOBODY, Int32s

if TYPE_CHECKING:
    from protocol.assignors.flat import FlatTargets

Bytes = NDArray[np.uint8]

_VERSION_BYTES: Final = 2
_ID_BYTES: Final = 16


def decode_targets(
    told: FlatTargets, places: Int32s, topic_ids: bytes, starts: Int32s
) -> tuple[Int32s, list[bool]]:
    """Return the owner of each partition, and whether each member has these partitions only.

    ``places`` are the members' numbers; ``topic_ids`` (16 bytes each) and ``starts`` describe the
    topics, sorted by id. Partitions of other topics are left out.
    """
    buffer = np.frombuffer(bytearray(told.buffer), np.uint8)
    ids = np.frombuffer(bytearray(topic_ids), np.uint8)
    owner = np.full(int(starts[-1]), NOBODY, np.int32)
    is_whole = np.ones(len(places), np.bool_)
    _read((buffer, writable(told.ends), places), (ids, writable(starts)), owner, is_whole)
    return owner, is_whole.tolist()


def decode_shared(told: FlatTargets, topic_ids: bytes, starts: Int32s) -> tuple[Int32s, Int32s]:
    """Return the partitions of each member, ascending (CSR); partitions may have several owners.

    The values are in the order of the members; an empty one has no partitions.
    """
    buffer = np.frombuffer(bytearray(told.buffer), np.uint8)
    ids = np.frombuffer(bytearray(topic_ids), np.uint8)
    return _read_rows(buffer, writable(told.ends), ids, writable(starts))


@kernel
def _read_rows(buffer: Bytes, ends: Int32s, ids: Bytes, starts: Int32s) -> tuple[Int32s, Int32s]:
    rows = np.zeros(len(ends) + 1, np.int32)
    found = np.empty(len(buffer) // 4 + 1, np.int32)
    total, start = 0, 0
    for member in range(len(ends)):
        end, at = ends[member], start + _VERSION_BYTES
        start, first = end, total
        count, at = _read_varint(buffer, at, end)
        for _ in range(count - 1):
            topic = _find(ids, buffer, at, end)
            length, at = _read_varint(buffer, at + _ID_BYTES, end)
            for _ in range(length - 1):
                if at + 4 > end:
                    break
                index = 0
                for each in range(4):
                    index = index << 8 | int(np.int64(buffer[at + each]))
                at += 4
                if topic >= 0 and index < starts[topic + 1] - starts[topic]:
                    found[total] = starts[topic] + index
                    total += 1
            at += 1  # no tagged fields
            if at >= end:
                break
        found[first:total].sort()
        kept = first
        for place in range(first, total):
            if place == first or found[place] != found[kept - 1]:
                found[kept] = found[place]
                kept += 1
        total = kept
        rows[member + 1] = total
    return rows, found[:total].copy()


@kernel
def _read(
    told: tuple[Bytes, Int32s, Int32s],
    topics: tuple[Bytes, Int32s],
    owner: Int32s,
    is_whole: NDArray[np.bool_],
) -> None:
    buffer, ends, places = told
    ids, starts = topics
    start = 0
    for member in range(len(places)):
        end, at = ends[member], start + _VERSION_BYTES
        start = end
        count, at = _read_varint(buffer, at, end)
        for _ in range(count - 1):
            topic = _find(ids, buffer, at, end)
            length, at = _read_varint(buffer, at + _ID_BYTES, end)
            for _ in range(length - 1):
                if at + 4 > end:
                    is_whole[member] = False
                    break
                index = 0
                for each in range(4):
                    index = index << 8 | int(np.int64(buffer[at + each]))
                at += 4
                if topic >= 0 and index < starts[topic + 1] - starts[topic]:
                    owner[starts[topic] + index] = places[member]
                else:
                    is_whole[member] = False
            at += 1  # no tagged fields
            if at >= end:
                is_whole[member] = False
                break


@kernel
def _read_varint(buffer: Bytes, at: int, end: int) -> tuple[int, int]:
    """Decode a number; return it and its end, or 0 where the bytes end."""
    number, shift = 0, 0
    while at < end and shift < 35:
        byte = int(np.int64(buffer[at]))
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, at
    return 0, at


@kernel
def _find(ids: Bytes, buffer: Bytes, at: int, end: int) -> int:
    """Return the topic whose id begins at ``at``, -1 if there is none."""
    low, high = 0, len(ids) // _ID_BYTES
    if at + _ID_BYTES > end:
        return -1
    while low < high:
        middle = (low + high) // 2
        order = 0
        for each in range(_ID_BYTES):
            there, here = ids[middle * _ID_BYTES + each], buffer[at + each]
            order = int(np.int64(there)) - int(np.int64(here))
            if order != 0:
                break
        if order == 0:
            return middle
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return -1
