"""Members of a classic group: session timers, parked requests, and the event log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups import event_log
from protocol.groups.classic import answers
from protocol.groups.effects import HeartbeatLease
from protocol.groups.facts import GONE, MemberEvent, MemberEventKind
from protocol.groups.timers import TimerKind
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from protocol.groups.classic.group import ClassicGroupMember, ClassicGroupRuntime
    from protocol.groups.context import Context
    from protocol.groups.effects import Ticket

REASON_LENGTH_MAX: Final = 255
"""Characters of a client's reason that are kept (KIP-800)."""


def cut(reason: str | None) -> str | None:
    """Shorten an over-long reason; return None for an empty one."""
    return reason[:REASON_LENGTH_MAX] if reason else None


def arm(
    ctx: Context, group: ClassicGroupRuntime, member: ClassicGroupMember, deadline_ms: int
) -> None:
    """Set the member's session deadline; it may be earlier than the present one."""
    member.session_deadline_ms = deadline_ms
    ctx.timers.set(TimerKind.SESSION, group.group_id, member.member_id, deadline_ms)


def touch(ctx: Context, group: ClassicGroupRuntime, member: ClassicGroupMember, now: int) -> None:
    """Restart the member's session timeout."""
    arm(ctx, group, member, now + member.session_timeout_ms)


def lease(group: ClassicGroupRuntime, member: ClassicGroupMember) -> HeartbeatLease:
    """Allow the successful heartbeat answer to be repeated until something changes."""
    held = member.lease
    if held is None or held.stamp != group.stamp:
        member.lease = held = HeartbeatLease(group, group.stamp, member)
    return held


def find(
    ctx: Context, group: ClassicGroupRuntime, ids: tuple[str, str | None], now: int
) -> ClassicGroupMember:
    """Return a member by (member id, instance id); log it if the request is fenced."""
    try:
        return group.member(*ids)
    except KafkaError as error:
        if error.code is ErrorCode.fenced_instance_id:
            group.event_log.note_fenced(ctx, event_log.fenced(group.group_id, *ids, now))
        raise


def event(
    ctx: Context,
    group: ClassicGroupRuntime,
    member: ClassicGroupMember,
    kind: MemberEventKind,
    now: int,
) -> MemberEvent:
    """Return an event about a member."""
    return MemberEvent(
        group_id=group.group_id,
        time_ms=now,
        kind=kind,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        client_software=member.client_software,
        silent_ms=ctx.silent_ms(member, now) if kind in GONE else None,
    )


def park_join(
    ctx: Context, group: ClassicGroupRuntime, member: ClassicGroupMember, ticket: Ticket
) -> None:
    """Park a JoinGroup; refuse an older one of the same member, whose client gave up."""
    answer_join(ctx, group, member, ErrorCode.rebalance_in_progress)
    group.park_join(member, ticket)


def park_sync(
    ctx: Context, group: ClassicGroupRuntime, member: ClassicGroupMember, ticket: Ticket
) -> None:
    """Park a SyncGroup; refuse an older one of the same member, whose client gave up."""
    answer_sync(ctx, group, member, ErrorCode.rebalance_in_progress)
    member.sync_ticket = ticket


def answer_join(
    ctx: Context, group: ClassicGroupRuntime, member: ClassicGroupMember, code: ErrorCode
) -> None:
    """Refuse the member's parked JoinGroup, if there is one."""
    ticket = group.take_join(member)
    if ticket is not None:
        # A member that gets UNKNOWN_MEMBER_ID starts over: it has no id any more.
        member_id = "" if code is ErrorCode.unknown_member_id else member.member_id
        ctx.reply(ticket, answers.join_refused(code, member_id), group.group_id)


def answer_sync(
    ctx: Context, group: ClassicGroupRuntime, member: ClassicGroupMember, code: ErrorCode
) -> None:
    """Refuse the member's parked SyncGroup, if there is one."""
    ticket = member.sync_ticket
    if ticket is not None:
        member.sync_ticket = None
        ctx.reply(ticket, answers.sync_refused(code), group.group_id)


def drop(ctx: Context, group: ClassicGroupRuntime, member: ClassicGroupMember) -> None:
    """Remove a member; answer its parked requests with UNKNOWN_MEMBER_ID."""
    answer_join(ctx, group, member, ErrorCode.unknown_member_id)
    answer_sync(ctx, group, member, ErrorCode.unknown_member_id)
    ctx.timers.cancel(TimerKind.SESSION, group.group_id, member.member_id)
    group.remove(member)


def drop_pending(ctx: Context, group: ClassicGroupRuntime, member_id: str) -> None:
    """Forget a pending member id that was never used."""
    ctx.timers.cancel(TimerKind.SESSION, group.group_id, member_id)
    del group.pending[member_id]


def fence(ctx: Context, group: ClassicGroupRuntime, member: ClassicGroupMember) -> None:
    """Refuse the parked requests of a static member that another one replaced (KIP-345)."""
    answer_join(ctx, group, member, ErrorCode.fenced_instance_id)
    answer_sync(ctx, group, member, ErrorCode.fenced_instance_id)
