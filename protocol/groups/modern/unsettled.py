"""How soon a member of a consumer group is asked to heartbeat again while its group is unsettled.

KIP-1263 leaves the interval in each answer to the coordinator. A member that awaits a target, or
partitions that others have yet to release, is asked back soon, and not after its whole heartbeat
interval. A group that changes all the time never settles, however soon its members come: after one
heartbeat interval of unrest they come as before, but for so few that it costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.modern.reconcile import MemberState

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.modern.reconcile import MemberAssignment
    from protocol.groups.modern.runtime import ModernGroupRuntime

LASTING_HEARTBEATS_PER_S: Final = 100
"""So many heartbeats a second, of all members together, are asked for in a lasting unrest."""

SPREAD: Final = 5
"""Members that began at one moment would go on coming all at once, and those that change something
would wait behind them: so some are asked to come sooner, by up to a fifth of the interval."""


def is_unsettled(runtime: ModernGroupRuntime, assignment: MemberAssignment) -> bool:
    """Whether a new target is on its way, or others have yet to release what is this member's."""
    group = runtime.group
    return (
        group.epoch != group.assignment_epoch
        or assignment.epoch != group.assignment_epoch
        or assignment.state is not MemberState.STABLE
    )


def heartbeat_interval_ms(
    ctx: Context, runtime: ModernGroupRuntime, assignment_ms: int, interval_ms: int, now: int
) -> int:
    """Return when a member that awaits something is to come again.

    A target that was put off has been computed soon after the assignment interval.
    ``assignment_ms`` and ``interval_ms`` are the group's assignment and heartbeat interval; the
    member is never asked to come later than after the latter.
    """
    config = runtime.group.kind.configs.unsettled_interval
    soon_ms = assignment_ms + (0 if config is None else ctx.configs.integer(config))
    if runtime.unsettled_period.continues(now, interval_ms) >= interval_ms:
        soon_ms = max(soon_ms, len(runtime.group.members) * 1000 // LASTING_HEARTBEATS_PER_S)
        if soon_ms >= interval_ms:
            return interval_ms - ctx.rng.randrange(interval_ms // SPREAD + 1)
    return min(soon_ms, interval_ms)
