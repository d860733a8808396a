"""The spare members of a group that is not classic (``fleet.spares``): no run sees them.

A spare has no target record. So a new leader finds in the log which members are active; it forgets
no more than the order in which spares joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.groups.fleet import spares
from protocol.groups.modern.hard_state import STATIC_LEAVE_EPOCH

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.modern.hard_state import ModernGroup, ModernGroupMember
    from protocol.groups.modern.runtime import AssignorRun, ModernGroupRuntime


def choose(ctx: Context, runtime: ModernGroupRuntime) -> None:
    """Choose the members that the next run does not see."""
    limit, group = spares.limit(ctx, runtime.group_id), runtime.group
    chosen: set[str] = set()
    if limit and len(group.members) > limit:
        ranked = sorted(group.members.values(), key=lambda member: _rank(group, member))
        chosen.update(member.member_id for member in ranked[limit:])
    runtime.feed.set_spares(limit, chosen)


def _rank(group: ModernGroup[Any], member: ModernGroupMember) -> tuple[bool, bool, bool]:
    """Return the lower rank for the member that is rather active; of equals the earlier one is."""
    is_away = member.assignment.epoch == STATIC_LEAVE_EPOCH
    return not _has_target(group, member.member_id), is_away, member.instance_id is None


def _has_target(group: ModernGroup[Any], member_id: str) -> bool:
    pending = group.pending_target
    return member_id in group.targets or (pending is not None and member_id in pending.targets)


def withdrawn(runtime: ModernGroupRuntime, run: AssignorRun) -> list[str]:
    """Return the spares that have a target, and have none any more with the result of this run."""
    group, successors = runtime.group, run.successors
    ids = [successors.get(each, each) for each in sorted(runtime.feed.spares)]
    return [each for each in ids if each in group.members and _has_target(group, each)]


def are_due(ctx: Context, runtime: ModernGroupRuntime) -> bool:
    """Return whether the config asks for another number of active members than there are.

    A leader that has run no assignor yet compares it with the log, once.
    """
    group, limit, told = runtime.group, spares.limit(ctx, runtime.group_id), runtime.feed.limit
    count = len(group.members)
    if not count:
        return False
    if told is None:
        is_settled = group.epoch == group.assignment_epoch and group.pending_target is None
        return is_settled and _has_others(group, limit)
    return min(limit or count, count) != min(told or count, count)


def _has_others(group: ModernGroup[Any], limit: int) -> bool:
    """Return whether the log has another number of active members than the config asks for.

    A member whose regular expression is not resolved yet has no target, and is no spare.
    """
    targets, members = group.targets, group.members
    if limit:
        return len(targets) != min(limit, len(members))
    if len(targets) == len(members):
        return False
    waiting = [member for member_id, member in members.items() if member_id not in targets]
    has_units = not group.kind.form.units_are_topics
    return any(has_units or group.topics_of(member.subscription) for member in waiting)


def note_settled(ctx: Context, runtime: ModernGroupRuntime) -> None:
    """Note that a new leader has compared the config with the log: its changes count from now."""
    if runtime.feed.limit is None:
        runtime.feed.limit = spares.limit(ctx, runtime.group_id)
