"""The two records that hold a member's tasks, read and written as Kafka's bytes.

As those of consumer groups (``modern.assignment_records``), they are most of a group's log; a test
checks that the bytes are those of their schemas. Only active tasks have assignment epochs.
"""

from __future__ import annotations

from struct import Struct, pack
from typing import TYPE_CHECKING, Final

from protocol.groups.modern.assignment_records import CurrentAssignment, read_epochs, read_ints
from protocol.groups.modern.form import ROLE_SHIFT, TaskRole
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.streams.task_numbers import SUBTOPOLOGY_MASK, SubtopologyNumbers, places
from protocol.groups.topic_numbers import TOPIC_SHIFT, by_topic
from protocol.wire.compact import NO_TAGS, read_string, read_uvarint, uvarint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.groups.topic_numbers import Partition

_VERSION: Final = b"\x00\x00"
_VERSION_BYTES: Final = 2
_HEAD: Final = Struct(">hiib")
_STATE_AT: Final = _HEAD.size - 1
_KAFKAS_FIRST_STATE: Final = 1
"""The number of STABLE in Kafka's records of streams groups; in all others it is 0, as in ours."""


def write_target(target: Iterable[Partition], numbers: SubtopologyNumbers) -> bytes:
    """Encode a member's target assignment."""
    return b"".join([_VERSION, _roles(dict.fromkeys(target, 0), numbers, False), NO_TAGS])


def read_target(data: bytes, numbers: SubtopologyNumbers) -> frozenset[Partition]:
    """Decode a member's target assignment."""
    found, _ = _read_roles(data, _VERSION_BYTES, numbers, 0)
    return frozenset(found)


def write_current(
    current: CurrentAssignment, numbers: SubtopologyNumbers, assigned: bytes | None = None
) -> bytes:
    """Encode a current assignment; ``assigned`` is its encoded part, if known already."""
    head = _HEAD.pack(0, current.member_epoch, current.previous_member_epoch, current.state)
    return b"".join(
        [
            head,
            write_owned(current.assigned, numbers) if assigned is None else assigned,
            write_owned(current.revoking, numbers),
            NO_TAGS,
        ]
    )


def write_owned(owned: Mapping[Partition, int], numbers: SubtopologyNumbers) -> bytes:
    """Encode tasks with the epochs in which the member got them."""
    return _roles(owned, numbers, True)


def read_current(data: bytes, numbers: SubtopologyNumbers) -> CurrentAssignment:
    """Decode a current assignment; an active task without an epoch gets the member's."""
    _, epoch, previous, state = _HEAD.unpack_from(data)
    assigned, at = _read_roles(data, _HEAD.size, numbers, max(epoch, 0))
    revoking, _ = _read_roles(data, at, numbers, max(epoch, 0))
    return CurrentAssignment(epoch, previous, state, assigned, revoking)


def of_kafka(data: bytes) -> bytes:
    """Return a current assignment that Kafka wrote with its member's state numbered as here.

    A state that is not known, or that a later version has, is UNKNOWN: the member starts over.
    """
    return _with_state(data, MemberState(data[_STATE_AT] - _KAFKAS_FIRST_STATE))


def to_kafka(data: bytes) -> bytes:
    """Return a current assignment of ours with its member's state numbered as Kafka does."""
    state = MemberState(data[_STATE_AT])
    is_known = state is not MemberState.UNKNOWN
    return _with_state(data, state + _KAFKAS_FIRST_STATE if is_known else state)


def _with_state(data: bytes, state: int) -> bytes:
    return b"".join([data[:_STATE_AT], bytes([state]), data[_HEAD.size :]])


def _roles(owned: Mapping[Partition, int], numbers: SubtopologyNumbers, with_epochs: bool) -> bytes:
    """Encode one array for each role."""
    rows: dict[int, list[bytes]] = {role: [] for role in TaskRole}
    for unit, indexes in by_topic(owned):
        role = unit >> (ROLE_SHIFT - TOPIC_SHIFT)
        count, form = uvarint(len(indexes) + 1), f">{len(indexes)}i"
        row = numbers.encoded[unit & SUBTOPOLOGY_MASK] + count + pack(form, *indexes)
        if with_epochs and role == TaskRole.ACTIVE:
            base = unit << TOPIC_SHIFT
            epochs = count + pack(form, *(owned[base | index] for index in indexes))
            rows[role].append(row + b"\x01\x00" + uvarint(len(epochs)) + epochs)
        else:
            rows[role].append(row + NO_TAGS)
    return b"".join(uvarint(len(each) + 1) + b"".join(each) for each in rows.values())


def _read_roles(
    data: bytes, at: int, numbers: SubtopologyNumbers, default: int
) -> tuple[dict[Partition, int], int]:
    found: dict[Partition, int] = {}
    for role in TaskRole:
        count, at = read_uvarint(data, at)
        for _ in range(count - 1):
            name, at = read_string(data, at)
            indexes, at = read_ints(data, at)
            epochs, at = read_epochs(data, at)
            if role != TaskRole.ACTIVE:
                epochs = (0,) * len(indexes)
            elif len(epochs) != len(indexes):
                epochs = (default,) * len(indexes)
            found.update(zip(places(role, numbers.number(name), indexes), epochs, strict=True))
    return found, at
