"""Groups of two types with one id: what a downgrade may leave in the log, and how that ends.

A version that knows both types never writes this: it removes a group's records before another type
takes the id. A version that does not know the later type passes its records over and may let
clients make another group with the same id. So of two groups the one whose type came first is the
newer one. It has the id; the other is shadowed. Which group that is depends on the records alone
and not on their order, which compaction changes. The next leader removes the shadowed group's
records.
"""

from __future__ import annotations

from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.groups.group_type import ShardPart
from protocol.groups.timers import TimerKind
from protocol.records import RECORD_TYPES, Record

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.hard_group import HardGroup
    from protocol.groups.timers import TimerKey

SLICE_RECORDS: Final = 1000
"""Tombstones in one turn: more than one member has, and than a group has besides its members."""


def find(ctx: Context, group_id: str, type_name: str) -> Any:
    """Return the group of that id and type, shadowed or not; None if there is none."""
    group = ctx.groups.get(group_id)
    if group is not None and group.type_name == type_name:
        return group
    return ctx.shadowed.get(group_id, {}).get(type_name)


def put(ctx: Context, group_id: str, group: HardGroup) -> None:
    """Add a group, in the place of one that has no records or whose type came later."""
    other = ctx.groups.get(group_id)
    if other is None or not other.is_logged:
        ctx.groups[group_id] = group
        return
    first, second = sorted((group, other), key=lambda each: _rank(ctx, each))
    ctx.groups[group_id] = first
    ctx.shadowed.setdefault(group_id, {})[second.type_name] = second


def drop(ctx: Context, group_id: str, type_name: str) -> None:
    """Remove the group of that id and type; a group that it shadowed has the id from now on."""
    shadowed = ctx.shadowed.get(group_id)
    group = ctx.groups.get(group_id)
    if group is not None and group.type_name == type_name:
        del ctx.groups[group_id]
        if shadowed:
            first = min(shadowed.values(), key=lambda each: _rank(ctx, each))
            ctx.groups[group_id] = shadowed.pop(first.type_name)
    elif shadowed is not None:
        shadowed.pop(type_name, None)
    if shadowed is not None and not shadowed:
        del ctx.shadowed[group_id]


def _rank(ctx: Context, group: HardGroup) -> int:
    """Return the number of the first record type of the group's type: types come in this order."""
    return min(RECORD_TYPES[key].number for key in ctx.tables.types[group.type_name].replays)


def elected(ctx: Context, now: int) -> None:
    """Begin to remove the shadowed groups."""
    if ctx.shadowed:
        ctx.timers.set(TimerKind.SHADOWED, "", "", now)


def remove_slice(ctx: Context, _key: TimerKey, now: int) -> None:
    """Remove records of shadowed groups; a group's epoch is the last one."""
    group_id = next(iter(ctx.shadowed), None)
    if group_id is None:
        return
    group = next(iter(ctx.shadowed[group_id].values()))
    for key in list(islice(group.record_keys(group_id), SLICE_RECORDS)):
        ctx.emit(Record(key, None))
    if ctx.shadowed:
        ctx.timers.set(TimerKind.SHADOWED, "", "", now)


PART: Final = ShardPart(
    name="shadowed",
    elected=elected,
    timeouts=MappingProxyType({TimerKind.SHADOWED: remove_slice}),
)
