"""The two records that hold a member's partitions, read and written as Kafka's bytes.

``ConsumerGroupTargetAssignmentMemberValue`` and ``ConsumerGroupCurrentMemberAssignmentValue`` are
by far the bulk of a consumer group's log. Their schemas are in ``protocol/record_types``, like all
others. But kio builds an object per topic, and here a member's partitions are a set of integers. So
these two are encoded and decoded directly. A test checks that the bytes are the same.
"""

from __future__ import annotations

from struct import Struct, pack, unpack_from
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.groups.topic_numbers import TOPIC_SHIFT, by_topic
from protocol.wire.compact import NO_TAGS, read_uvarint, uvarint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.groups.topic_numbers import Partition, TopicNumbers

_VERSION: Final = b"\x00\x00"
_CURRENT_HEAD: Final = Struct(">hiib")
_ONE_OWNED: Final = Struct(">16sBiBBBBi").pack
"""A topic with one partition, the common case for a spreading assignor; see ``write_owned``."""
_INT: Final = Struct(">i").unpack_from
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
    """Encode a member's target assignment."""
    topics = [
        numbers.ids[topic]
        + uvarint(len(indexes) + 1)
        + pack(f">{len(indexes)}i", *indexes)
        + NO_TAGS
        for topic, indexes in by_topic(partitions)
    ]
    return b"".join([_VERSION, uvarint(len(topics) + 1), *topics, NO_TAGS])


def read_target(data: bytes, numbers: TopicNumbers) -> frozenset[Partition]:
    """Decode a member's target assignment."""
    count, at = read_uvarint(data, len(_VERSION))
    known = numbers.numbers
    partitions: list[Partition] = []
    for _ in range(count - 1):
        topic_id = data[at : at + _UUID_BYTES]
        number = known.get(topic_id)
        base = (numbers.number(topic_id) if number is None else number) << TOPIC_SHIFT
        at += _UUID_BYTES
        if data[at] == 2:  # one partition
            partitions.append(base | _INT(data, at + 1)[0])
            at += 5
        else:
            indexes, at = read_ints(data, at)
            partitions += [base | index for index in indexes]
        at = at + 1 if data[at] == 0 else _skip_tags(data, at)
    return frozenset(partitions)


def write_current(
    current: CurrentAssignment, numbers: TopicNumbers, assigned: bytes | None = None
) -> bytes:
    """Encode a current assignment; ``assigned`` is its encoded part, if known already."""
    return b"".join(
        [
            _CURRENT_HEAD.pack(
                0, current.member_epoch, current.previous_member_epoch, current.state
            ),
            write_owned(current.assigned, numbers) if assigned is None else assigned,
            write_owned(current.revoking, numbers),
            NO_TAGS,
        ]
    )


def write_owned(partitions: Mapping[Partition, int], numbers: TopicNumbers) -> bytes:
    """Encode partitions with the epochs in which the member got them."""
    if not partitions:
        return b"\x01"
    ids, count = numbers.ids, 0
    parts = [b""]
    for topic, indexes in by_topic(partitions):
        count += 1
        base = topic << TOPIC_SHIFT
        if len(indexes) == 1:
            (index,) = indexes
            parts.append(_ONE_OWNED(ids[topic], 2, index, 1, 0, 5, 2, partitions[base | index]))
            continue
        epochs = [partitions[base | index] for index in indexes]
        length = uvarint(len(indexes) + 1)
        form = f">{len(indexes)}i"
        parts += (
            ids[topic],
            length,
            pack(form, *indexes),
            b"\x01\x00",  # one tagged field, whose tag is 0
            uvarint(len(length) + 4 * len(indexes)),
            length,
            pack(form, *epochs),
        )
    parts[0] = uvarint(count + 1)
    return b"".join(parts)


def read_current(data: bytes, numbers: TopicNumbers) -> CurrentAssignment:
    """Decode a current assignment; a partition without an assignment epoch gets the member's."""
    _, epoch, previous, state = _CURRENT_HEAD.unpack_from(data)
    default = max(epoch, 0)  # a static member that is away has -2
    assigned, at = _read_owned(data, _CURRENT_HEAD.size, numbers, default)
    revoking, _ = _read_owned(data, at, numbers, default)
    return CurrentAssignment(epoch, previous, state, assigned, revoking)


def _read_owned(
    data: bytes, at: int, numbers: TopicNumbers, default: int
) -> tuple[dict[Partition, int], int]:
    count, at = read_uvarint(data, at)
    owned: dict[Partition, int] = {}
    for _ in range(count - 1):
        base = numbers.number(data[at : at + _UUID_BYTES]) << TOPIC_SHIFT
        indexes, at = read_ints(data, at + _UUID_BYTES)
        epochs, at = read_epochs(data, at)
        if len(epochs) != len(indexes):
            epochs = (default,) * len(indexes)
        for index, epoch in zip(indexes, epochs, strict=True):
            owned[base | index] = epoch
    return owned, at


def read_epochs(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Read the assignment epochs among the tagged fields of a topic; none without them."""
    epochs: tuple[int, ...] = ()
    count, at = read_uvarint(data, at)
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        length, at = read_uvarint(data, at)
        if tag == _EPOCHS_TAG and data[at] != 0:  # 0 is null
            epochs, _ = read_ints(data, at)
        at += length
    return epochs, at


def read_ints(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Read a compact array of int32; null is empty."""
    above, at = read_uvarint(data, at)
    if above <= 1:
        return (), at
    count = above - 1
    return unpack_from(f">{count}i", data, at), at + 4 * count


def _skip_tags(data: bytes, at: int) -> int:
    count, at = read_uvarint(data, at)
    for _ in range(count):
        _, at = read_uvarint(data, at)
        length, at = read_uvarint(data, at)
        at += length
    return at
