"""The life of a classic group as other parts see it: summary, build, restore and deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.groups import shadowed
from protocol.groups.classic import answers, membership, rebuild
from protocol.groups.classic.group import NO_GENERATION, ClassicGroup
from protocol.groups.classic.rebalance_fact import report_rebalance
from protocol.groups.classic.states import ClassicGroupState
from protocol.groups.facts import GroupDeleted, RebalanceOutcome
from protocol.groups.group_type import Built, GroupSummary
from protocol.groups.timers import TimerKind
from protocol.records import GroupMetadataKey, GroupMetadataValue, Record
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.event_log import MemberEventLog


class GroupSnapshot(NamedTuple):
    """A group's state, since when (Unix milliseconds, -1: not known), its type and its size."""

    state: ClassicGroupState
    protocol_type: str
    state_timestamp_ms: int
    members: int


def snapshot_of(ctx: Context, group_id: str) -> GroupSnapshot | None:
    """Return a snapshot of a group; None if there is no such group."""
    group = ctx.classic_runtime.get(group_id)
    if group is not None:
        return GroupSnapshot(
            group.state, group.protocol_type or "", group.state_timestamp_ms, len(group.members)
        )
    hard = ctx.groups.get(group_id)
    if not isinstance(hard, ClassicGroup):
        return None
    metadata = hard.metadata
    state = ClassicGroupState.STABLE if metadata.members else ClassicGroupState.EMPTY
    return GroupSnapshot(
        state, metadata.protocol_type, metadata.current_state_timestamp, len(metadata.members)
    )


def summary(ctx: Context, group_id: str) -> GroupSummary:
    """Return a classic group's entry for ListGroups."""
    snapshot = snapshot_of(ctx, group_id)
    assert snapshot is not None
    return GroupSummary(
        ClassicGroup.type_name, snapshot.state, snapshot.protocol_type, snapshot.members
    )


def has_members(ctx: Context, group_id: str) -> bool:
    """Whether a classic group has members; False for an Empty or a nonexistent group."""
    group = ctx.classic_runtime.get(group_id)
    if group is not None:
        return bool(group.members)
    hard = ctx.groups.get(group_id)
    return isinstance(hard, ClassicGroup) and hard.has_members


def is_abandoned(ctx: Context, group_id: str) -> bool:
    """Whether a group has no members and none is about to join."""
    group = ctx.classic_runtime.get(group_id)
    has_pending = group is not None and bool(group.pending)
    snapshot = snapshot_of(ctx, group_id)
    return snapshot is not None and snapshot.state is ClassicGroupState.EMPTY and not has_pending


def delete(ctx: Context, group_id: str, now: int) -> None:
    """Delete an Empty group whose offsets are gone; its pending member ids become invalid."""
    ctx.emit(Record(GroupMetadataKey(group=group_id), None))
    forget(ctx, group_id)
    ctx.fact(GroupDeleted(group_id=group_id, time_ms=now))


def release_group_id(ctx: Context, group_id: str, now: int) -> None:
    """Release the id of a group without members to a group of another type; keep its offsets."""
    runtime = ctx.classic_runtime.get(group_id)
    if runtime is not None and runtime.rebalance is not None:
        for kind in (TimerKind.JOIN, TimerKind.SYNC):
            ctx.timers.cancel(kind, group_id, "")
        report_rebalance(ctx, runtime, RebalanceOutcome.RESTARTED, now)
    group = ctx.groups.get(group_id)
    if isinstance(group, ClassicGroup) and group.metadata is not NO_GENERATION:
        delete(ctx, group_id, now)
    else:
        forget(ctx, group_id)


def forget(ctx: Context, group_id: str) -> None:
    """Drop the soft state of a group that is deleted or changes its type."""
    group = ctx.classic_runtime.pop(group_id, None)
    if group is not None:
        group.stamp += 1
        for member_id in list(group.pending):
            membership.drop_pending(ctx, group, member_id)


def forget_failed(ctx: Context, group_id: str) -> None:
    """Drop the soft state of a group whose handling raised; the caller replays its records."""
    members: set[str] = set()
    group = ctx.classic_runtime.pop(group_id, None)
    if group is not None:
        group.stamp += 1
        members.update(group.members, group.pending)
    hard = ctx.groups.get(group_id)
    if isinstance(hard, ClassicGroup):
        members.update(member.member_id for member in hard.metadata.members)
    for kind in (TimerKind.JOIN, TimerKind.SYNC):
        ctx.timers.cancel(kind, group_id, "")
    for member_id in members:
        ctx.timers.cancel(TimerKind.SESSION, group_id, member_id)


def build(ctx: Context, group_id: str, now: int) -> Built:
    """Build a group's soft state after an election."""
    group = rebuild.find(ctx, group_id, now)
    return Built(0 if group is None else len(group.members), is_whole=True)


def restore(ctx: Context, group_id: str, now: int) -> None:
    """Build the soft state of a group whose records were replayed."""
    rebuild.find(ctx, group_id, now)


def resigned(ctx: Context) -> None:
    """Stop leading: answer all parked requests, end every lease, drop the soft state."""
    for group in ctx.classic_runtime.values():
        group.stamp += 1
        for member in group.members.values():
            ticket = group.take_join(member)
            if ticket is not None:
                refusal = answers.join_refused(ErrorCode.not_coordinator, member.member_id)
                ctx.reply(ticket, refusal, None)
            if member.sync_ticket is not None:
                ctx.reply(member.sync_ticket, answers.sync_refused(ErrorCode.not_coordinator), None)
                member.sync_ticket = None
    ctx.classic_runtime.clear()


def shift_deadlines(ctx: Context, stall_ms: int) -> None:
    """Shift the members' session deadlines by the time that this process was stalled."""
    for group in ctx.classic_runtime.values():
        for member in group.members.values():
            member.session_deadline_ms += stall_ms


def events_of(ctx: Context, group_id: str) -> MemberEventLog | None:
    """Return the recent events of a group's members."""
    group = ctx.classic_runtime.get(group_id)
    return None if group is None else group.event_log


def replay_group_metadata(
    ctx: Context, key: GroupMetadataKey, value: GroupMetadataValue | None
) -> None:
    """Apply a generation; a tombstone removes the group."""
    group = shadowed.find(ctx, key.group, ClassicGroup.type_name)
    if value is None:
        shadowed.drop(ctx, key.group, ClassicGroup.type_name)
    elif group is not None:
        group.metadata = value
    else:
        shadowed.put(ctx, key.group, ClassicGroup(value))
