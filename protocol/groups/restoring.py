"""A group whose handling raised: it is forgotten, and built again from its records in the log.

An exception half-way through a handler leaves memory that nobody may believe. Only one group's
memory is in doubt, so only that group is forgotten (:func:`forget`). Whoever drives the shard then
replays the group's records and calls :func:`restored`. For the members this is like a failover of
their group: who waits is told to ask again, and every session begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.classic import rebuild
from protocol.groups.classic.group import ClassicGroup
from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.effects import Request, Result
from protocol.groups.modern import group as modern
from protocol.groups.timers import TimerKind
from protocol.wire.apis import API

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from protocol.groups.context import Context
    from protocol.groups.effects import Event
    from protocol.records import Record

RETRY_MS: Final = 1_000
"""A restored group's topics and target are looked at after so long: a failure does not spin."""

GROUP_TIMERS: Final = (
    TimerKind.JOIN,
    TimerKind.SYNC,
    TimerKind.ASSIGNMENT,
    TimerKind.TARGET,
    TimerKind.REFRESH,
)
MEMBER_TIMERS: Final = (TimerKind.SESSION, *modern.MEMBER_TIMERS)


def groups_of(ctx: Context, event: Event) -> Sequence[str] | None:
    """Name the groups that may differ after the event has raised; None: any of them may."""
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
    """Drop all that is known of a group, in whatever state it is; no answer is repeated."""
    ctx.result = Result()
    ctx.emitted = None
    members: set[str] = set()
    group = ctx.live.pop(group_id, None)
    if group is not None:
        group.stamp += 1
        members.update(group.members, group.pending)
    live = ctx.modern.pop(group_id, None)
    if live is not None:
        live.end_leases()
        modern.cancel_run(ctx, live)
        members.update(live.sessions)
    hard = ctx.groups.pop(group_id, None)
    ctx.offsets.pop(group_id, None)
    if isinstance(hard, ConsumerGroup):
        hard.news = None
        members.update(hard.members)
        _unsubscribe(ctx, group_id, hard.topics)
    elif isinstance(hard, ClassicGroup):
        members.update(member.member_id for member in hard.metadata.members)
    for kind in GROUP_TIMERS:
        ctx.timers.cancel(kind, group_id, "")
    for kind in MEMBER_TIMERS:
        for member_id in members:
            ctx.timers.cancel(kind, group_id, member_id)


def _unsubscribe(ctx: Context, group_id: str, names: Iterable[str]) -> None:
    for name in names:
        groups = ctx.subscribers.get(name)
        if groups is not None:
            groups.discard(group_id)
            if not groups:
                del ctx.subscribers[name]


def restored(ctx: Context, group_id: str, now: int) -> Result:
    """Give a group whose records were replayed its soft state; its sessions begin now."""
    if ctx.elected_ms is None:
        return ctx.result
    elected_ms, ctx.elected_ms = ctx.elected_ms, now
    try:
        if rebuild.find(ctx, group_id, now) is None:
            live = modern.find(ctx, group_id, now)
            if live is not None:
                while live.unarmed:
                    modern.arm_slice(ctx, live, now)
                ctx.timers.set(TimerKind.REFRESH, group_id, "", now + RETRY_MS)
    finally:
        ctx.elected_ms = elected_ms
    return ctx.result
