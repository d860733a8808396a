"""Members of groups that are not classic take over a target, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.groups.facts import GroupReconciled, NamedMember, TakenOver
from protocol.groups.modern.reconcile import MemberState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.groups.facts import Fact
    from protocol.groups.modern.hard_state import ModernGroup
    from protocol.watching.memory import ModernMemory


def settled(
    group: ModernGroup[Any], memory: ModernMemory, last: NamedMember | None, time_ms: int
) -> Iterator[Fact]:
    """Note that ``last`` has a new assignment; report once that every member has its target.

    Or that no member is left.
    """
    if memory.assigned_ms is None:
        return
    epoch, count = group.assignment_epoch, len(group.members)
    if last is not None and _has_target(group, last.member_id):
        memory.taken_over.append(TakenOver(time_ms, last))
    is_settled = group.epoch <= epoch and group.settled[epoch] >= count
    if count and not is_settled:
        return
    assigned_ms, memory.assigned_ms = memory.assigned_ms, None
    yield GroupReconciled(
        group_id=group.group_id,
        time_ms=time_ms,
        epoch=epoch,
        assigned_ms=assigned_ms,
        members=count,
        last=last,
        taken_over=tuple(memory.taken_over),
    )


def _has_target(group: ModernGroup[Any], member_id: str) -> bool:
    assignment = group.members[member_id].assignment
    return assignment.epoch == group.assignment_epoch and assignment.state is MemberState.STABLE
