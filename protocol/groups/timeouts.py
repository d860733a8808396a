"""Runs due timers: each kind's function is in the table of the part that claims the kind."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.effects import TimersDue
from protocol.groups.group_type import ShardPart

if TYPE_CHECKING:
    from protocol.groups.context import Context

RETRY_MS: Final = 1_000
"""When to retry a timer for all groups that raised: a failure must not loop."""


def timers_due(ctx: Context, _event: TimersDue, now: int) -> None:
    """Run due timers; a timer that is set for this very moment runs with the next event."""
    timers, timeouts = ctx.timers, ctx.tables.timeouts
    mark = timers.mark()
    while (key := timers.pop_due(now, mark)) is not None:
        is_done = ctx.contain(key.group_id, f"timer {key.kind}", timeouts[key.kind], ctx, key, now)
        if not (is_done or key.group_id):
            timers.set(key.kind, "", "", now + RETRY_MS)  # it serves all groups


PART: Final = ShardPart(name="timers", events=MappingProxyType({TimersDue: timers_due}))
