"""How soon a member of a consumer group is asked to heartbeat again while its group is unsettled.

KIP-1263 leaves the interval in each answer to the coordinator. A member that waits for a target, or
for partitions that others still have to release, is asked to come back soon instead of after its
whole heartbeat interval. A group that changes all the time never settles, however soon its members
come. So after one heartbeat interval in that state they come at the normal interval again, except
for so few that they cost next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.modern.reconcile import MemberState

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.modern.reconcile import MemberAssignment
    from protocol.groups.modern.runtime import ModernGroupRuntime

LASTING_HEARTBEATS_PER_S: Final = 100
"""Early heartbeats asked for per second, over all members, in a group that does not settle."""

SPREAD: Final = 5
"""Members that began at one moment would keep coming at the same moments, and requests that change
something would wait behind them: so some are asked up to a fifth of the interval sooner."""


def is_unsettled(runtime: ModernGroupRuntime, assignment: MemberAssignment) -> bool:
    """Whether a new target is pending, or other members still hold partitions of this member."""
    group = runtime.group
    return (
        group.epoch != group.assignment_epoch
        or assignment.epoch != group.assignment_epoch
        or assignment.state is not MemberState.STABLE
    )


def heartbeat_interval_ms(
    ctx: Context, runtime: ModernGroupRuntime, assignment_ms: int, interval_ms: int, now: int
) -> int:
    """Return after how many ms a waiting member should heartbeat again.

    A delayed target is computed soon after the assignment interval. ``assignment_ms`` and
    ``interval_ms`` are the group's assignment and heartbeat interval; the result never exceeds the
    latter.
    """
    config = runtime.group.kind.configs.unsettled_interval
    soon_ms = assignment_ms + (0 if config is None else ctx.configs.integer(config))
    if runtime.unsettled_period.continues(now, interval_ms) >= interval_ms:
        soon_ms = max(soon_ms, len(runtime.group.members) * 1000 // LASTING_HEARTBEATS_PER_S)
        if soon_ms >= interval_ms:
            return interval_ms - ctx.rng.randrange(interval_ms // SPREAD + 1)
    return min(soon_ms, interval_ms)
