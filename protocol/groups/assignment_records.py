"""The two records that say which partitions a member has: read and written as Kafka's bytes.

``ConsumerGroupTargetAssignmentMemberValue`` and ``ConsumerGroupCurrentMemberAssignmentValue`` are
by far the bulk of a consumer group's log. Their schemas are in ``protocol/record_types``, as all;
but kio builds an object per topic, and here a member's partitions are a set of integers. So these
two are read and written without that detour. A test holds the bytes to be the same.
"""

from __future__ import annotations

from struct import Struct, pack, unpack_from
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.groups.topic_numbers import TOPIC_SHIFT, by_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.groups.topic_numbers import Partition, TopicNumbers

_VERSION: Final = b"\x00\x00"
_NO_TAGS: Final = b"\x00"
_CURRENT_HEAD: Final = Struct(">hiib")
_EPOCHS_TAG: Final = 0
_UUID_BYTES: Final = 16


class CurrentAssignment(NamedTuple):
    """A member's epochs, the number of its state, and its partitions with assignment epochs."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: Mapping[Partition, int]
    revoking: Mapping[Partition, int]


def write_target(partitions: Iterable[Partition], numbers: TopicNumbers) -> bytes:
    """Write a member's target assignment."""
    topics = [
        numbers.ids[topic]
        + _uvarint(len(indexes) + 1)
        + pack(f">{len(indexes)}i", *indexes)
        + _NO_TAGS
        for topic, indexes in by_topic(partitions)
    ]
    return b"".join([_VERSION, _uvarint(len(topics) + 1), *topics, _NO_TAGS])


def read_target(data: bytes, numbers: TopicNumbers) -> frozenset[Partition]:
    """Read a member's target assignment."""
    count, at = _read_uvarint(data, len(_VERSION))
    partitions: list[Partition] = []
    for _ in range(count - 1):
        base = numbers.number(data[at : at + _UUID_BYTES]) << TOPIC_SHIFT
        indexes, at = _read_ints(data, at + _UUID_BYTES)
        partitions += [base | index for index in indexes]
        at = _skip_tags(data, at)
    return frozenset(partitions)


def write_current(current: CurrentAssignment, numbers: TopicNumbers) -> bytes:
    """Write what a member has now."""
    return b"".join(
        [
            _CURRENT_HEAD.pack(
                0, current.member_epoch, current.previous_member_epoch, current.state
            ),
            _owned(current.assigned, numbers),
            _owned(current.revoking, numbers),
            _NO_TAGS,
        ]
    )


def _owned(partitions: Mapping[Partition, int], numbers: TopicNumbers) -> bytes:
    parts = [b""]
    for topic, indexes in by_topic(partitions):
        base, count = topic << TOPIC_SHIFT, len(indexes)
        epochs = [partitions[base | index] for index in indexes]
        length = _uvarint(count + 1)
        form = f">{count}i"
        parts += (
            numbers.ids[topic],
            length,
            pack(form, *indexes),
            b"\x01\x00",  # one tagged field, whose tag is 0
            _uvarint(len(length) + 4 * count),
            length,
            pack(form, *epochs),
        )
    parts[0] = _uvarint((len(parts) - 1) // 7 + 1)
    return b"".join(parts)


def read_current(data: bytes, numbers: TopicNumbers) -> CurrentAssignment:
    """Read what a member has; a partition without an assignment epoch has the member's."""
    _, epoch, previous, state = _CURRENT_HEAD.unpack_from(data)
    default = max(epoch, 0)  # a static member that is away has -2
    assigned, at = _read_owned(data, _CURRENT_HEAD.size, numbers, default)
    revoking, _ = _read_owned(data, at, numbers, default)
    return CurrentAssignment(epoch, previous, state, assigned, revoking)


def _read_owned(
    data: bytes, at: int, numbers: TopicNumbers, default: int
) -> tuple[dict[Partition, int], int]:
    count, at = _read_uvarint(data, at)
    owned: dict[Partition, int] = {}
    for _ in range(count - 1):
        base = numbers.number(data[at : at + _UUID_BYTES]) << TOPIC_SHIFT
        indexes, at = _read_ints(data, at + _UUID_BYTES)
        epochs, at = _read_epochs(data, at)
        if len(epochs) != len(indexes):
            epochs = (default,) * len(indexes)
        for index, epoch in zip(indexes, epochs, strict=True):
            owned[base | index] = epoch
    return owned, at


def _read_epochs(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    epochs: tuple[int, ...] = ()
    count, at = _read_uvarint(data, at)
    for _ in range(count):
        tag, at = _read_uvarint(data, at)
        length, at = _read_uvarint(data, at)
        if tag == _EPOCHS_TAG and data[at] != 0:  # 0 is null
            epochs, _ = _read_ints(data, at)
        at += length
    return epochs, at


def _read_ints(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    above, at = _read_uvarint(data, at)
    if above <= 1:
        return (), at
    count = above - 1
    return unpack_from(f">{count}i", data, at), at + 4 * count


def _skip_tags(data: bytes, at: int) -> int:
    count, at = _read_uvarint(data, at)
    for _ in range(count):
        _, at = _read_uvarint(data, at)
        length, at = _read_uvarint(data, at)
        at += length
    return at


def _uvarint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes(1, "big")
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
