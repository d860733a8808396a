"""What a consumer, share or streams group waits for on its way to a target."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from protocol.groups.awaiting import AWAITED_MAX, LOOKED_AT_MAX, AwaitedStep, Awaiting
from protocol.groups.modern.reconcile import MemberState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.groups.context import Context
    from protocol.groups.modern.hard_state import ModernGroupMember
    from protocol.groups.modern.runtime import Change, ModernGroupRuntime


def awaiting(ctx: Context, group_id: str) -> Awaiting | None:
    """Return what a group waits for; None if all have their target, or it is not in use here."""
    runtime = ctx.modern_runtime.get(group_id)
    if runtime is None or not runtime.group.members:
        return None
    if runtime.group.epoch > runtime.group.assignment_epoch:
        return _for_target(ctx, runtime)
    return _for_members(ctx, runtime)


def _for_target(ctx: Context, runtime: ModernGroupRuntime) -> Awaiting:
    """Return what the next target waits for: the one in force is outdated."""
    if runtime.target_write is not None:
        write = runtime.target_write
        return _awaiting(runtime, AwaitedStep.WRITE, write.run.change, write.computed_ms)
    if runtime.run is not None:
        run = runtime.run
        return _awaiting(runtime, AwaitedStep.ASSIGNOR, run.change, run.started_ms)
    since_ms = _since(ctx, runtime)
    return _awaiting(runtime, AwaitedStep.INTERVAL, runtime.change, since_ms)


def _awaiting(
    runtime: ModernGroupRuntime, step: AwaitedStep, change: Change | None, step_ms: int
) -> Awaiting:
    group = runtime.group
    return Awaiting(
        group_id=runtime.group_id,
        group_type=group.type_name,
        step=step,
        since_ms=step_ms if change is None else change.since_ms,
        step_ms=step_ms,
        number=group.assignment_epoch,
        cause=None if change is None else change.cause,
        members=len(group.members),
    )


def _for_members(ctx: Context, runtime: ModernGroupRuntime) -> Awaiting | None:
    group, epoch = runtime.group, runtime.group.assignment_epoch
    count = len(group.members) - group.settled[epoch]
    if count <= 0:
        return None
    assigned_ms = _since(ctx, runtime) if runtime.assigned_ms is None else runtime.assigned_ms
    step, late, count = _late(runtime, epoch, count)
    return Awaiting(
        group_id=runtime.group_id,
        group_type=group.type_name,
        step=step,
        since_ms=assigned_ms,
        step_ms=assigned_ms,
        number=epoch,
        awaited=[(each.member_id, each.metadata) for each in late],
        awaited_count=count,
        members=len(group.members),
    )


def _late(
    runtime: ModernGroupRuntime, epoch: int, count: int
) -> tuple[AwaitedStep, Sequence[ModernGroupMember], int]:
    """Return whom the others wait for; if it is nobody, who lacks what is free for it.

    A member with ``UNRELEASED_PARTITIONS`` waits itself, for what others have not given up.
    """
    holding: list[ModernGroupMember] = []
    waiting: list[ModernGroupMember] = []
    held = 0
    for member in islice(runtime.group.members.values(), LOOKED_AT_MAX):
        assignment = member.assignment
        is_waiting = assignment.state is MemberState.UNRELEASED_PARTITIONS
        if assignment.epoch == epoch and is_waiting:
            if len(waiting) < AWAITED_MAX:
                waiting.append(member)
        elif assignment.epoch != epoch or assignment.state is not MemberState.STABLE:
            held += 1
            if held <= AWAITED_MAX:
                holding.append(member)
    if holding:
        return AwaitedStep.GIVE_UP, holding, held
    return AwaitedStep.TAKE_OVER, waiting, count


def _since(ctx: Context, runtime: ModernGroupRuntime) -> int:
    """Return since when at the latest: the first change, or the begin of this leadership."""
    change = runtime.change
    return (ctx.elected_ms or 0) if change is None else change.since_ms
