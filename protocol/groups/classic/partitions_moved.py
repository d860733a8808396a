"""Count the partitions that change owners between two assignments of a classic consumer group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.wire.embedded import decode_assignment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.wire.embedded import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMovement:
    """Counts of partitions by what happened to them.

    ``assigned`` is the number of partitions in the new assignment; of these, ``moved`` had another
    owner before and ``added`` had none. ``dropped`` had an owner before and have none now: a
    cooperative assignor drops a partition in one rebalance and adds it to its next owner in
    another.
    """

    assigned: int
    moved: int
    added: int
    dropped: int


def partitions_moved(
    before: Mapping[str, bytes], after: Mapping[str, bytes]
) -> PartitionMovement | None:
    """Compare two assignments, each from a member's lasting name to the bytes of its assignment.

    Return None when an assignment cannot be decoded: the members use a protocol of their own.
    """
    owners_before, owners_after = _owners(before), _owners(after)
    if owners_before is None or owners_after is None:
        return None
    kept = added = 0
    for partition, owner in owners_after.items():
        previous = owners_before.get(partition)
        if previous == owner:
            kept += 1
        elif previous is None:
            added += 1
    assigned = len(owners_after)
    moved = assigned - kept - added
    return PartitionMovement(
        assigned=assigned, moved=moved, added=added, dropped=len(owners_before) - kept - moved
    )


def _owners(assignments: Mapping[str, bytes]) -> dict[TopicPartition, str] | None:
    owners: dict[TopicPartition, str] = {}
    for member, blob in assignments.items():
        if not blob:
            continue  # no partitions were assigned
        partitions = decode_assignment(blob)
        if partitions is None:
            return None
        owners.update(dict.fromkeys(partitions, member))
    return owners
