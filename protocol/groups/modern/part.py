"""The part of the shard that all modern group types share."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.effects import AssignmentComputed, AssignmentFailed, RegexesResolved
from protocol.groups.group_type import ShardPart
from protocol.groups.modern import awaiting as modern_awaiting
from protocol.groups.modern import group as modern
from protocol.groups.modern import invariants, regexes, target
from protocol.groups.modern import leave as modern_leave
from protocol.tables import merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from protocol.config import Configs
    from protocol.groups.context import Context


def configs_changed(ctx: Context, _before: Configs) -> None:
    """Apply new broker configs to all groups."""
    group_configs_changed(ctx, list(ctx.modern_runtime))


def group_configs_changed(ctx: Context, group_ids: Sequence[str] | Iterable[str]) -> None:
    """Apply new group configs to the answers and timers of these groups."""
    for group_id in group_ids:
        runtime = ctx.modern_runtime.get(group_id)
        if runtime is not None:
            ctx.contain(group_id, "new configs", modern.configs_changed, ctx, runtime)
            ctx.contain(group_id, "new configs", target.configs_changed, ctx, runtime)


PART: Final = ShardPart(
    name="modern",
    timeouts=merged(modern_leave.TIMEOUTS, target.TIMEOUTS, regexes.TIMEOUTS),
    events=MappingProxyType(
        {
            AssignmentComputed: target.computed,
            AssignmentFailed: target.failed,
            RegexesResolved: regexes.resolved,
        }
    ),
    resigned=modern.resigned,
    shift_deadlines=modern.shift_deadlines,
    configs_changed=configs_changed,
    group_configs_changed=group_configs_changed,
    topics_changed=modern.topics_changed,
    forget=modern.forget_failed,
    events_of=modern.events_of,
    awaiting=modern_awaiting.awaiting,
    broken=invariants.broken,
)
