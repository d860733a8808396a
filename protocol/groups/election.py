"""Runtime state after an election: groups are built in slices.

Nothing is built right after an election. A group is built when a request or a timer first needs it,
the others in slices by the REBUILD timer, so that the time to the first answer does not depend on
the number of groups. Whenever it is built, a group's members have their whole session timeout,
counted from the election.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.dispatch import reactions
from protocol.groups.effects import Elected, Resigned
from protocol.groups.group_type import Built, ShardPart, type_of
from protocol.groups.timers import TimerKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.groups.context import Context
    from protocol.groups.group_type import Timeout
    from protocol.groups.timers import TimerKey

SLICE_MEMBERS: Final = 1000
"""Members built per REBUILD timer; the last group of the slice may exceed it."""


def elected(ctx: Context, event: Elected, now: int) -> None:
    """Begin to lead; drop all state left from an earlier term."""
    resigned(ctx, event, now)
    for react in reactions(ctx.tables, "elected"):
        react(ctx, now)


def resigned(ctx: Context, _event: Elected | Resigned, _now: int) -> None:
    """Stop leading: answer all parked requests, end every lease, drop the runtime state."""
    for react in reactions(ctx.tables, "resigned"):
        react(ctx)
    ctx.unbuilt.clear()
    ctx.timers.clear()
    ctx.elected_ms = None


def await_build(ctx: Context, now: int) -> None:
    """Mark every group as not built yet."""
    ctx.elected_ms = now
    ctx.unbuilt = list(ctx.groups)[::-1]
    if ctx.unbuilt:
        ctx.timers.set(TimerKind.REBUILD, "", "", now)


def rebuild_timeout(ctx: Context, _key: TimerKey, now: int) -> None:
    """Build the next slice of groups after an election."""
    members, unbuilt = 0, ctx.unbuilt
    while unbuilt and members < SLICE_MEMBERS:
        part = _Slice()
        has_failed = not ctx.contain(unbuilt[-1], "rebuild", _build, ctx, unbuilt[-1], part, now)
        members += part.members
        if has_failed or part.is_last:
            unbuilt.pop()
    if unbuilt:
        ctx.timers.set(TimerKind.REBUILD, "", "", now)


@dataclass(slots=True)
class _Slice:
    """How much of a group was built, and whether nothing is left to build."""

    members: int = 1
    is_last: bool = True


def _build(ctx: Context, group_id: str, part: _Slice, now: int) -> None:
    """Build a group's runtime state, or a slice of it."""
    kind = type_of(ctx, group_id)
    if kind is not None:
        built: Built = kind.build(ctx, group_id, now)
        part.members += built.members
        part.is_last = built.is_whole


TIMEOUTS: Final[Mapping[str, Timeout]] = MappingProxyType({TimerKind.REBUILD: rebuild_timeout})

PART: Final = ShardPart(
    name="election",
    events=MappingProxyType({Elected: elected, Resigned: resigned}),
    timeouts=TIMEOUTS,
    elected=await_build,
)
