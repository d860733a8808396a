"""The report of a new target: what it changes, and who had not taken over the one before.

No target is computed for a group without members. That its last member is gone is reported as a
target for nobody, which takes effect at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.groups.facts import GroupReconciled, NamedMember, TargetAssigned, TargetChange
from protocol.groups.fleet import expected
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.modern.runtime import FreedTargets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.groups.context import Context
    from protocol.groups.facts import MemberEvent
    from protocol.groups.modern.runtime import ModernGroupRuntime, TargetWrite

AWAITED_MAX: Final = 10
"""Members that a report names among those that had not taken over a target."""


class TargetStep(NamedTuple):
    """From which assignment epoch a target led, who had not taken over the one before, and when."""

    epoch_before: int
    awaited: Sequence[NamedMember]
    now: int


def awaited(runtime: ModernGroupRuntime, target_write: TargetWrite) -> list[NamedMember]:
    """Return the members that have not taken over the target in force, if any are awaited.

    Members that have joined since have no part in it.
    """
    group = runtime.group
    epoch = group.assignment_epoch
    if runtime.assigned_ms is None or group.settled[epoch] >= len(group.members):
        return []
    joined = target_write.members.keys() - target_write.before.keys()
    return [
        NamedMember(member.member_id, member.metadata)
        for member in group.members.values()
        if (member.assignment.epoch != epoch or member.assignment.state is not MemberState.STABLE)
        and member.member_id not in joined
    ]


def report_target(
    ctx: Context, runtime: ModernGroupRuntime, target_write: TargetWrite, step: TargetStep
) -> None:
    """Report that a target is in force."""
    group, run, result = runtime.group, target_write.run, target_write.result
    ctx.fact(
        TargetAssigned(
            group_id=runtime.group_id,
            group_type=group.type_name,
            units=group.kind.form.noun,
            assignor=run.assignor,
            epoch_before=step.epoch_before,
            epoch_after=run.epoch,
            cause=run.change.cause,
            changed_ms=run.change.since_ms,
            started_ms=run.started_ms,
            computed_ms=target_write.computed_ms,
            ended_ms=step.now,
            members=len(group.members),
            members_changed=len(result.members),
            partitions_moved=result.partitions_moved,
            queue_ms=result.queue_ms,
            assignor_ms=result.assignor_ms,
            in_place=run.in_place,
            change=_change(ctx, runtime, target_write),
            fix_ups=target_write.left_out + len(run.successors),
            awaited=tuple(step.awaited[:AWAITED_MAX]),
            awaited_count=len(step.awaited),
            taken_over=tuple(runtime.taken_over),
            elected_ms=ctx.elected_ms,
            run=run.number,
            expected=expected.report(ctx, runtime.group_id, runtime.first, group.static_members),
        )
    )


def told_epoch(runtime: ModernGroupRuntime) -> int:
    """Return up to which epoch the group's story is told."""
    return max(runtime.group.assignment_epoch, runtime.emptied_epoch)


def report_emptied(
    ctx: Context, runtime: ModernGroupRuntime, cause: MemberEvent | None, now: int
) -> None:
    """Report that no member is left, and what they had: it begins and ends here."""
    group, freed = runtime.group, runtime.freed
    ctx.fact(
        TargetAssigned(
            group_id=runtime.group_id,
            group_type=group.type_name,
            units=group.kind.form.noun,
            assignor="",
            epoch_before=told_epoch(runtime),
            epoch_after=group.epoch,
            cause=cause,
            changed_ms=now,
            started_ms=now,
            computed_ms=now,
            ended_ms=now,
            members=0,
            members_changed=0,
            partitions_moved=-1,
            queue_ms=0.0,
            assignor_ms=0.0,
            in_place=True,
            change=TargetChange(
                before=freed.targets,
                after=(),
                members=freed.members,
                topics=ctx.topics,
                total=None,
                is_whole=freed.is_whole,
            ),
            taken_over=tuple(runtime.taken_over),
            elected_ms=ctx.elected_ms,
        )
    )
    ctx.fact(
        GroupReconciled(
            group_id=runtime.group_id, time_ms=now, epoch=group.epoch, assigned_ms=now, members=0
        )
    )
    runtime.freed, runtime.assigned_ms, runtime.emptied_epoch = FreedTargets(), None, group.epoch
    runtime.taken_over.clear()


def _change(ctx: Context, runtime: ModernGroupRuntime, target_write: TargetWrite) -> TargetChange:
    """Return what a target changes, as references."""
    group, freed = runtime.group, runtime.freed
    total = None
    if group.kind.form.units_are_topics:
        known = map(ctx.topics.by_name, group.topics)
        total = sum([topic.partitions for topic in known if topic is not None])
    return TargetChange(
        before={**freed.targets, **target_write.before},
        after=target_write.result.members,
        members={**freed.members, **target_write.members},
        topics=ctx.topics,
        total=total,
        is_whole=freed.is_whole,
    )
