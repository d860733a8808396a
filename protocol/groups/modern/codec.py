"""The record classes of a modern group type: the same fields, but each type has its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from kio.static.protocol import Entity

    from protocol.groups.modern.assignment_records import CurrentAssignment
    from protocol.groups.topic_numbers import Partition


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordCodec:
    """Key classes are called with a group id; those of members also with a member id.

    ``epoch`` makes a group's value with the group epoch and the hash of the topics; it has the
    fields of ``ConsumerGroupMetadataValue``, and may have more. ``target_epoch`` makes the value
    with the assignment epoch, its time (Unix ms) and the epoch of a target that is being written
    (0: none); it has the fields of ``ConsumerGroupTargetAssignmentMetadataValue``. Target and
    current assignments are bytes: ``read_target``, ``read_current`` and ``write_current`` know
    their format; each gets the numbers of the group's units (``ModernGroup.unit_numbers``).
    ``write_owned`` encodes the part of a current assignment that stays the same from one epoch to
    the next; ``owned_in_target`` takes it from a target assignment with the same partitions (None:
    its format is another). ``unknown_member`` is the value for a member of which only the
    assignment was read.
    ``regex_key`` is called with a group id and an expression, ``regex`` with its matches, the
    version of the topics and the time (Unix ms); None: members cannot subscribe by expression.
    """

    epoch_key: type[Any]
    epoch: Callable[[Any, int, int], Entity]
    member_key: type[Any]
    unknown_member: Entity
    target_epoch_key: type[Any]
    target_epoch: Callable[[int, int, int], Entity]
    target_key: type[Any]
    read_target: Callable[[bytes, Any], Set[Partition]]
    current_key: type[Any]
    read_current: Callable[[bytes, Any], CurrentAssignment]
    write_current: Callable[[CurrentAssignment, Any, bytes | None], bytes]
    write_owned: Callable[[Mapping[Partition, int], Any], bytes]
    owned_in_target: Callable[[bytes], bytes] | None = None
    regex_key: type[Any] | None = None
    regex: Callable[[Sequence[str], int, int], Entity] | None = None
