"""What a classic group waits for while it rebalances."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from protocol.groups.awaiting import AWAITED_MAX, AwaitedStep, Awaiting
from protocol.groups.classic.states import ClassicGroupState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.classic.group import ClassicGroupMember, ClassicGroupRuntime
    from protocol.groups.context import Context


def awaiting(ctx: Context, group_id: str) -> Awaiting | None:
    """Return what a group waits for; None if it does not rebalance, or is not in use here."""
    group = ctx.classic_runtime.get(group_id)
    rebalance = None if group is None else group.rebalance
    if group is None or rebalance is None:
        return None
    step, late, count = _step(group)
    joined_ms = rebalance.joined_ms
    return Awaiting(
        group_id=group_id,
        group_type="classic",
        step=step,
        since_ms=rebalance.started_ms,
        step_ms=rebalance.started_ms if joined_ms is None else joined_ms,
        number=rebalance.generation_before,
        cause=rebalance.event,
        trigger=rebalance.trigger,
        awaited=[(each.member_id, each) for each in islice(late, AWAITED_MAX)],
        awaited_count=count,
        members=len(group.members),
    )


def _step(
    group: ClassicGroupRuntime,
) -> tuple[AwaitedStep, Iterable[ClassicGroupMember], int]:
    """Return the step, who is awaited in it, and how many that are."""
    rebalance = group.rebalance
    assert rebalance is not None
    if rebalance.phase is not ClassicGroupState.PREPARING_REBALANCE:
        leader = group.members.get(group.leader_id or "")
        return AwaitedStep.SYNC, () if leader is None else (leader,), int(leader is not None)
    if rebalance.is_initial:
        return AwaitedStep.MORE_MEMBERS, (), 0
    late = (each for each in group.members.values() if each.join_ticket is None)
    return AwaitedStep.JOIN, late, len(group.members) - group.awaiting_join
