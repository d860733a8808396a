"""The report of a rebalance, made when it ends or has to begin again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups import facts
from protocol.groups.classic.states import ClassicGroupState
from protocol.groups.fleet import expected

if TYPE_CHECKING:
    from protocol.groups.classic.group import ClassicGroupRuntime
    from protocol.groups.classic.states import Rebalance
    from protocol.groups.context import Context
    from protocol.records import GroupMetadataValue


_NOBODY: Final = facts.MemberEvent(
    group_id="", time_ms=0, kind=facts.MemberEventKind.JOINED, member_id=""
)
"""In place of a member event when no member caused the rebalance."""


def report_rebalance(
    ctx: Context, group: ClassicGroupRuntime, outcome: facts.RebalanceOutcome, now: int
) -> None:
    """Report that the rebalance under way ends now; its result is already persisted."""
    rebalance = group.rebalance
    assert rebalance is not None
    event = rebalance.event or _NOBODY
    ctx.fact(
        facts.RebalanceEnded(
            group_id=group.group_id,
            trigger=rebalance.trigger,
            outcome=outcome,
            member_id=event.member_id,
            group_instance_id=event.group_instance_id,
            client_id=event.client_id,
            client_host=event.client_host,
            reason=event.reason,
            generation_before=rebalance.generation_before,
            generation_after=group.generation,
            protocol_type=group.protocol_type or "",
            protocol_name=group.protocol_name or "",
            leader_id=group.leader_id or "",
            phases=_phases(rebalance, now),
            assignments_before=_assignments(rebalance.before),
            assignments_after=_assignments(group.hard.metadata),
            members_before=rebalance.before.members,
            members_after=group.hard.metadata.members,
            is_initial=rebalance.is_initial,
            last_joined=rebalance.last_joined,
            elected_ms=ctx.elected_ms,
            client_software=event.client_software,
            expected=expected.report(ctx, group.group_id, rebalance.first, group.static_members),
        )
    )


def _phases(rebalance: Rebalance, now: int) -> tuple[facts.RebalancePhase, ...]:
    joined_ms = now if rebalance.joined_ms is None else rebalance.joined_ms
    join = facts.RebalancePhase("join", rebalance.started_ms, joined_ms)
    if rebalance.phase is ClassicGroupState.PREPARING_REBALANCE:
        return (join,)
    return (join, facts.RebalancePhase("sync", joined_ms, now))


def _assignments(metadata: GroupMetadataValue) -> dict[str, bytes]:
    return {
        member.member_id if member.group_instance_id is None else member.group_instance_id: (
            member.assignment
        )
        for member in metadata.members
    }
