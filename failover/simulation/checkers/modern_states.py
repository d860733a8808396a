"""Modern groups as plain values, and their invariants after every committed batch."""

from __future__ import annotations

from operator import gt
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from failover.simulation.checkers.tasks import check_processes
from failover.simulation.event_log import Violation
from failover.simulation.kinds import STREAMS
from protocol.groups.group_types import TABLES
from protocol.groups.modern.form import role_of
from protocol.groups.streams.task_numbers import SUBTOPOLOGY_MASK
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.groups.modern.hard_state import ModernGroup, PendingTarget
    from protocol.groups.topic_numbers import Partition, TopicNumbers

    Group: TypeAlias = ModernGroup[Any]


def reconciles(group: Any) -> TypeGuard[Group]:
    """Return whether a group's members get partitions step by step; None is no group."""
    return group is not None and TABLES.types[group.type_name].logs_member_epochs


def described(context: Any, group: Group, *, with_targets: bool = True) -> Any:
    """Return everything in the log about a group; topics by id, not by a machine's numbers.

    While a target arrives, a node that loaded the group cannot distinguish the members' records of
    it from those of the previous one: then each member's newest is returned.
    """
    numbers = context.numbers
    members = {
        member_id: (
            member.metadata,
            assignment.epoch,
            assignment.previous_epoch,
            assignment.state,
            _named(group, assignment.assigned, numbers),
            _named(group, assignment.revoking, numbers),
        )
        for member_id, member in group.members.items()
        for assignment in (member.assignment,)
    }
    pending_target = group.pending_target
    targets = (
        group.targets if pending_target is None else {**group.targets, **pending_target.targets}
    )
    return (
        (group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_timestamp_ms),
        members,
        {member_id: _set(group, target, numbers) for member_id, target in targets.items()}
        if with_targets
        else None,
        None if pending_target is None else pending_target.epoch,
        group.regexes,
        group.static_members,
        group.own_values(),
    )


def _named(
    group: Group, partitions: Mapping[Partition, int], numbers: TopicNumbers
) -> dict[Any, int]:
    """Name partitions by topic id; tasks by role and subtopology."""
    if not group.kind.form.units_are_topics:
        ids = group.unit_numbers(numbers).ids
        return {
            (role_of(at), ids[at >> TOPIC_SHIFT & SUBTOPOLOGY_MASK], at & INDEX_MASK): epoch
            for at, epoch in partitions.items()
        }
    uuids = numbers.uuids
    return {(uuids[at >> TOPIC_SHIFT], at & INDEX_MASK): epoch for at, epoch in partitions.items()}


def _set(group: Group, target: bytes, numbers: TopicNumbers) -> frozenset[Any]:
    places = group.kind.codec.read_target(target, group.unit_numbers(numbers))
    return frozenset(_named(group, dict.fromkeys(places, 0), numbers))


def _is_same(group: Group, before: tuple[Group, frozenset[str], int, int]) -> bool:
    """Return whether a group was not deleted since it was seen: a member of it stayed."""
    return before[0] is group and not before[1].isdisjoint(group.members)


class TargetProgress:
    """Follows one partition's consumer groups from batch to batch."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Group, frozenset[str], int, int]] = {}
        self._arriving: dict[str, PendingTarget] = {}
        self._halves: set[str] = set()

    def has_half(self, group_id: str) -> bool:
        """Return whether the log has parts of a target that was never completed.

        A node that loads the group takes them for parts of the target that is arriving now, until
        that one is complete: it is written for every member.
        """
        return group_id in self._halves

    def check(self, context: Any, group_ids: Iterable[str]) -> None:
        """Check that epochs only grow, and that the effective target assigns each partition once.

        ``group_ids`` are the groups of which the batch has records. A group may be deleted and
        created again within one batch, in which only the last record of a key is written: the
        object stays, but its members change.
        """
        for group_id in group_ids:
            group = context.groups.get(group_id)
            if not reconciles(group):
                continue
            before = self._seen.get(group_id)
            epochs = (group.epoch, group.assignment_epoch)
            if before is not None and any(map(gt, before[2:], epochs)) and _is_same(group, before):
                raise Violation(
                    f"the epochs of the group and its target fall from {before[2:]} to {epochs}",
                    group_id,
                )
            self._seen[group_id] = (group, frozenset(group.members), *epochs)
            self._follow(group)
            self._is_whole(context.numbers, group)
            if group_id.startswith(STREAMS) and not group.kind.form.units_are_topics:
                check_processes(context.numbers, group)

    def _follow(self, group: Group) -> None:
        """Note whether a target that was arriving was completed, or replaced by another one."""
        before, pending_target = self._arriving.pop(group.group_id, None), group.pending_target
        if pending_target is None:
            self._halves.discard(group.group_id)
            return
        self._arriving[group.group_id] = pending_target
        was_whole = before is None or before.epoch == group.assignment_epoch
        if before is not pending_target and not was_whole:
            self._halves.add(group.group_id)

    def _is_whole(self, numbers: TopicNumbers, group: Group) -> None:
        owners: dict[Partition, str] = {}
        kind = group.kind
        for member_id, target in group.targets.items():
            places = kind.codec.read_target(target, group.unit_numbers(numbers))
            for partition in kind.form.exclusive(places):
                other = owners.setdefault(partition, member_id)
                if other != member_id:
                    raise Violation(
                        f"the target of epoch {group.assignment_epoch} gives a partition to"
                        f" {member_id} and to {other}",
                        group.group_id,
                    )
