"""Consumer groups as plain values, and what must hold of them after every committed batch."""

from __future__ import annotations

from operator import gt
from typing import TYPE_CHECKING, Any

from failover.simulation.story import Violation
from protocol.groups.assignment_records import read_target
from protocol.groups.consumer_group import ConsumerGroup
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.groups.topic_numbers import Partition, TopicNumbers


def described(context: Any, group: ConsumerGroup) -> Any:
    """Give all that the log says of a group; topics by their ids, not by a machine's numbers.

    While a target arrives, whoever loaded the group cannot tell the members' records of it from
    those of the one before: targets are left out then.
    """
    numbers = context.numbers
    members = {
        member_id: (
            member.metadata,
            standing.epoch,
            standing.previous_epoch,
            standing.state,
            _named(standing.assigned, numbers),
            _named(standing.revoking, numbers),
        )
        for member_id, member in group.members.items()
        for standing in (member.standing,)
    }
    arriving = group.arriving
    return (
        (group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_timestamp_ms),
        members,
        {member_id: _set(target, numbers) for member_id, target in group.targets.items()}
        if arriving is None
        else arriving.epoch,
        group.regexes,
        group.static_members,
    )


def _named(partitions: Mapping[Partition, int], numbers: TopicNumbers) -> dict[Any, int]:
    uuids = numbers.uuids
    return {(uuids[at >> TOPIC_SHIFT], at & INDEX_MASK): epoch for at, epoch in partitions.items()}


def _set(target: bytes, numbers: TopicNumbers) -> frozenset[Any]:
    return frozenset(_named(dict.fromkeys(read_target(target, numbers), 0), numbers))


class Progress:
    """Follows one partition's consumer groups from batch to batch."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[ConsumerGroup, int, int]] = {}

    def check(self, context: Any) -> None:
        """Hold that epochs only grow, and that a target in force gives each partition once."""
        for group_id, group in context.groups.items():
            if not isinstance(group, ConsumerGroup):
                continue
            before = self._seen.get(group_id)
            epochs = (group.epoch, group.assignment_epoch)
            is_same = before is not None and before[0] is group
            if before is not None and is_same and any(map(gt, before[1:], epochs)):
                raise Violation(
                    f"the epochs of the group and its target fall from {before[1:]} to {epochs}",
                    group_id,
                )
            self._seen[group_id] = (group, *epochs)
            self._is_whole(context.numbers, group)

    def _is_whole(self, numbers: TopicNumbers, group: ConsumerGroup) -> None:
        owners: dict[Partition, str] = {}
        for member_id, target in group.targets.items():
            for partition in read_target(target, numbers):
                other = owners.setdefault(partition, member_id)
                if other != member_id:
                    raise Violation(
                        f"the target of epoch {group.assignment_epoch} gives a partition to"
                        f" {member_id} and to {other}",
                        group.group_id,
                    )
