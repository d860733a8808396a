"""Recovery of a group whose handling raised: forget it, and rebuild it from its records in the log.

An exception in the middle of a handler leaves state that cannot be trusted. Only one group's state
is in doubt, so only that group is forgotten (:func:`forget`). The shard's driver then replays the
group's records and calls :func:`restored`. To the members this is like a failover of their group:
parked requests are answered with a retriable error, and every session starts again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.dispatch import reactions
from protocol.groups.effects import Request, Result
from protocol.groups.group_type import type_of
from protocol.wire.apis import API

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.groups.context import Context
    from protocol.groups.effects import Event
    from protocol.records import Record


def groups_of(ctx: Context, event: Event) -> Sequence[str] | None:
    """Return the groups that the event may have changed before it raised; None: any group."""
    emitted = dict.fromkeys(_group_of(record) for record in ctx.result.records)
    if isinstance(event, Request):
        if API[event.api_key].group.changes_memory:
            emitted[event.message.group_id] = None  # type: ignore[attr-defined]  # all of them do
        return tuple(emitted)
    group_id: str | None = getattr(event, "group_id", None)
    return None if group_id is None else tuple({**emitted, group_id: None})


def _group_of(record: Record) -> str:
    key = record.key
    group: str = key.group if hasattr(key, "group") else key.group_id  # type: ignore[attr-defined]
    return group


def forget(ctx: Context, group_id: str) -> None:
    """Drop all state of a group, whatever state it is in; no answer is repeated."""
    ctx.result = Result()
    ctx.emitted = None
    for forget_in_part in reactions(ctx.tables, "forget"):
        forget_in_part(ctx, group_id)
    ctx.groups.pop(group_id, None)
    ctx.shadowed.pop(group_id, None)
    ctx.offsets.pop(group_id, None)


def restored(ctx: Context, group_id: str, now: int) -> Result:
    """Build the soft state of a group whose records were replayed; its sessions begin now."""
    if ctx.elected_ms is None:
        ctx.kept_for_operators.clear()
        return ctx.result
    elected_ms, ctx.elected_ms = ctx.elected_ms, now
    try:
        kind = type_of(ctx, group_id)
        if kind is not None:
            kind.restore(ctx, group_id, now)
    finally:
        ctx.elected_ms = elected_ms
        ctx.kept_for_operators.pop(group_id, None)
    return ctx.result
