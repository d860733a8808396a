"""Leaving a group that reconciles: for a while, for good, or not heard of in time."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.facts import MemberEventKind
from protocol.groups.group_type import edge_when_leaving
from protocol.groups.modern import group as modern
from protocol.groups.modern import members as modern_members
from protocol.groups.modern import regexes, target
from protocol.groups.modern.hard_state import STATIC_LEAVE_EPOCH
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.timers import TimerKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context
    from protocol.groups.modern.hard_state import ModernMember
    from protocol.groups.modern.runtime import ModernRuntime
    from protocol.groups.timers import TimerKey


def go_for_a_while(ctx: Context, live: ModernRuntime, member: ModernMember, now: int) -> None:
    """Keep a static member's partitions for it; what it was giving up is free at once."""
    standing = replace(
        member.standing,
        epoch=STATIC_LEAVE_EPOCH,
        assigned=dict.fromkeys(member.standing.assigned, 0),
        revoking={},
    )
    session = modern.session_of(ctx, live, member.member_id, now)
    session.stamp += 1
    session.answer = None
    ctx.timers.cancel(TimerKind.REVOCATION, live.group_id, member.member_id)
    modern_members.emit_standing(ctx, live.group_id, member.member_id, standing)
    live.diary.note(ctx, modern.event(live, member, MemberEventKind.WENT, now))


def remove(
    ctx: Context,
    live: ModernRuntime,
    members: Mapping[str, str | None],
    kind: MemberEventKind,
    now: int,
) -> None:
    """Remove members, each for a reason of its client's, and begin one new group epoch.

    The group may become one of another type by that (online migration).
    """
    group = live.group
    edge = edge_when_leaving(ctx, group, members)
    if edge is not None and edge.convert_without is not None:
        for member_id, reason in members.items():
            event = modern.event(live, group.members[member_id], kind, now)
            live.diary.note(ctx, replace(event, reason=reason))
        edge.convert_without(ctx, live, members, now)
        return
    first = None
    for member_id, reason in members.items():
        event = replace(modern.event(live, group.members[member_id], kind, now), reason=reason)
        modern_members.emit_tombstones(ctx, group, member_id)
        modern.drop_session(ctx, live, member_id)
        live.feed.member_gone(member_id)
        live.diary.note(ctx, event)
        first = first or event
    regexes.drop_unused(ctx, group)
    modern.bump(ctx, live, first, now)
    modern.tell_if_settled(ctx, live, now)
    target.update(ctx, live, now)


def session_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Remove a member that was not heard of in time."""
    live = ctx.modern.get(key.group_id)
    session = None if live is None else live.sessions.get(key.member_id)
    if live is None or session is None:
        return
    if session.session_deadline_ms > now:
        modern.arm(ctx, live, session, session.session_deadline_ms)
        return
    remove(ctx, live, {key.member_id: None}, MemberEventKind.EXPIRED, now)


def revocation_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Remove a member that has not given up its partitions in time."""
    live = ctx.modern.get(key.group_id)
    member = None if live is None else live.group.members.get(key.member_id)
    if live is None or member is None:
        return
    standing = member.standing
    if standing.state is MemberState.UNREVOKED_PARTITIONS and standing.epoch >= 0:
        remove(ctx, live, {key.member_id: None}, MemberEventKind.NOT_REVOKED, now)


TIMEOUTS: Final[Mapping[str, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {
        TimerKind.MEMBER_SESSION: session_timeout,
        TimerKind.REVOCATION: revocation_timeout,
    }
)
