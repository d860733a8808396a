"""New targets of groups that are not classic: what they change."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from protocol.groups.facts import (
    NamedMember,
    TargetAssigned,
    TargetChange,
    TopicsCause,
)
from protocol.groups.modern.reconcile import MemberState
from protocol.stories import movement
from protocol.watching.memory import EpochChange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.groups.modern.hard_state import ModernGroup
    from protocol.watching.memory import ModernMemory
    from protocol.watching.outlook import Outlook

AWAITED_MAX: Final = 10
COUNTED_MAX: Final = 64 << 20
"""Bytes of targets of which it is counted what moved; no coordinator has counted it."""


def assigned(
    outlook: Outlook, group: ModernGroup[Any], memory: ModernMemory, when: tuple[int, int]
) -> TargetAssigned:
    """Return the fact of a new target; ``when`` is its epoch, and its time (Unix ms)."""
    epoch, time_ms = when
    change = memory.take_changes(epoch) or EpochChange(
        time_ms, TopicsCause.NOT_RECORDED, "there is no record of a new group epoch"
    )
    awaited, awaited_count = ((), 0) if outlook.is_silent else _awaited(group, memory)
    kept = _kept(group, memory)
    names = dict.fromkeys((*memory.before, *memory.after, *kept))
    members = {
        each: group.members[each].metadata if each in group.members else memory.members[each]
        for each in names
        if each in group.members or each in memory.members
    }
    total = None
    if group.kind.form.units_are_topics:
        known = [outlook.topics.by_name(name) for name in group.topics]
        if all(each is not None for each in known):
            total = sum(each.partitions for each in known if each is not None) or None
    target = TargetChange(
        before={**_of(memory.before, members), **kept},
        after=[*_of(memory.after, members).items(), *kept.items()],
        members=members,
        topics=outlook.topics,
        total=total,
        is_whole=True,
    )
    moved = None
    if not outlook.is_silent:
        moved = movement.of_target(group.type_name, target, COUNTED_MAX)
    assignors = group.assignors.most_common(1)
    return TargetAssigned(
        group_id=group.group_id,
        group_type=group.type_name,
        units=group.kind.form.noun,
        assignor=assignors[0][0] if assignors else "",
        epoch_before=min(memory.targeted(group.assignment_epoch), epoch - 1),
        epoch_after=epoch,
        cause=change.cause,
        changed_ms=change.since_ms,
        started_ms=change.since_ms,
        computed_ms=time_ms,
        ended_ms=time_ms,
        members=len(group.members),
        members_changed=len(memory.after),
        partitions_moved=movement.NOT_COUNTED if moved is None else moved.moved,
        queue_ms=None,
        assignor_ms=None,
        in_place=None,
        fix_ups=None,
        change=target,
        awaited=awaited,
        awaited_count=awaited_count,
        taken_over=tuple(memory.taken_over),
        inferred=change.inferred,
    )


def _of(targets: Mapping[str, bytes], members: Mapping[str, Any]) -> dict[str, bytes]:
    return {each: data for each, data in targets.items() if each in members}


def _kept(group: ModernGroup[Any], memory: ModernMemory) -> dict[str, bytes]:
    """Return the targets that stay as they are, where others may have the same partitions."""
    form = group.kind.form
    if not form.is_shared or not form.units_are_topics:
        return {}
    changed = memory.before.keys() | memory.after.keys()
    return {
        each: data
        for each, data in group.targets.items()
        if each not in changed and each in group.members
    }


def _awaited(group: ModernGroup[Any], memory: ModernMemory) -> tuple[tuple[NamedMember, ...], int]:
    """Return the first members that have not taken over the target in force, and their number."""
    epoch = group.assignment_epoch
    joined = (memory.after.keys() - memory.before.keys()) & group.members.keys()
    count = len(group.members) - group.settled[epoch] - len(joined)
    if memory.assigned_ms is None or count <= 0:
        return (), 0
    late = (
        NamedMember(member.member_id, member.metadata)
        for member in group.members.values()
        if (member.assignment.epoch != epoch or member.assignment.state is not MemberState.STABLE)
        and member.member_id not in joined
    )
    return tuple(islice(late, min(AWAITED_MAX, count))), count
