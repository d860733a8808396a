"""Leaving a modern group: temporarily, permanently, or by session timeout."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.facts import MemberEventKind
from protocol.groups.fleet import retention
from protocol.groups.group_type import edge_when_leaving
from protocol.groups.modern import group as modern
from protocol.groups.modern import members as modern_members
from protocol.groups.modern import regexes, target, target_fact
from protocol.groups.modern.hard_state import STATIC_LEAVE_EPOCH
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.timers import TimerKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context
    from protocol.groups.modern.hard_state import ModernGroupMember
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.timers import TimerKey


def leave_temporarily(
    ctx: Context, runtime: ModernGroupRuntime, member: ModernGroupMember, now: int
) -> None:
    """Keep a static member's partitions for it; free those that it was revoking at once."""
    assignment = replace(
        member.assignment,
        epoch=STATIC_LEAVE_EPOCH,
        assigned=dict.fromkeys(member.assignment.assigned, 0),
        revoking={},
    )
    session = modern.session_of(ctx, runtime, member.member_id, now)
    session.stamp += 1
    session.answer = None
    ctx.timers.cancel(TimerKind.REVOCATION, runtime.group_id, member.member_id)
    modern_members.emit_assignment(ctx, runtime.group_id, member.member_id, assignment)
    runtime.event_log.note(ctx, modern.event(ctx, runtime, member, MemberEventKind.WENT, now))


def remove(
    ctx: Context,
    runtime: ModernGroupRuntime,
    members: Mapping[str, str | None],
    kind: MemberEventKind,
    now: int,
) -> None:
    """Remove members, each with its client's reason, and begin one new group epoch.

    This may convert the group to another type (online migration).
    """
    group = runtime.group
    edge = edge_when_leaving(ctx, group, members)
    if edge is not None and edge.convert_without is not None:
        for member_id, reason in members.items():
            event = modern.event(ctx, runtime, group.members[member_id], kind, now)
            runtime.event_log.note(ctx, replace(event, reason=reason))
        edge.convert_without(ctx, runtime, members, now)
        return
    first = None
    for member_id, reason in members.items():
        member = group.members[member_id]
        event = replace(modern.event(ctx, runtime, member, kind, now), reason=reason)
        runtime.freed.add(member_id, group.targets.get(member_id), member.metadata)
        if kind is MemberEventKind.EXPIRED:
            _keep_assignment(ctx, runtime, member, now)
        modern_members.emit_tombstones(ctx, group, member_id)
        modern.drop_session(ctx, runtime, member_id)
        runtime.feed.member_gone(member_id)
        runtime.event_log.note(ctx, event)
        first = first or event
    regexes.drop_unused(ctx, group)
    modern.bump(ctx, runtime, first, now)
    if group.members:
        modern.report_if_settled(ctx, runtime, now)
    else:
        target_fact.report_emptied(ctx, runtime, first, now)
    target.update(ctx, runtime, now)


def _keep_assignment(
    ctx: Context, runtime: ModernGroupRuntime, member: ModernGroupMember, now: int
) -> None:
    """Keep what a static member had, for its instance to return, if the group is configured so."""
    retention_ms = retention.retention_ms(ctx, runtime.group_id)
    if not retention_ms or not runtime.group.kind.keeps_assignments or member.instance_id is None:
        return
    member_id = member.member_id
    target = runtime.group.targets.get(member_id) or runtime.feed.earlier.get(member_id)
    runtime.kept.forget_old(now)
    if target is not None:
        runtime.kept.keep(member.instance_id, target, now + retention_ms)


def session_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Remove a member whose session has expired."""
    runtime = ctx.modern_runtime.get(key.group_id)
    session = None if runtime is None else runtime.sessions.get(key.member_id)
    if runtime is None or session is None:
        return
    deadline_ms = ctx.session_end(session)
    if deadline_ms > now:
        modern.arm(ctx, runtime, session, deadline_ms)
        return
    remove(ctx, runtime, {key.member_id: None}, MemberEventKind.EXPIRED, now)


def revocation_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Remove a member that has not revoked its partitions in time."""
    runtime = ctx.modern_runtime.get(key.group_id)
    member = None if runtime is None else runtime.group.members.get(key.member_id)
    if runtime is None or member is None:
        return
    assignment = member.assignment
    if assignment.state is MemberState.UNREVOKED_PARTITIONS and assignment.epoch >= 0:
        remove(ctx, runtime, {key.member_id: None}, MemberEventKind.NOT_REVOKED, now)


TIMEOUTS: Final[Mapping[str, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {
        TimerKind.MEMBER_SESSION: session_timeout,
        TimerKind.REVOCATION: revocation_timeout,
    }
)
