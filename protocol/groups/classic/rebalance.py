"""The two phases of a rebalance: members join, then the group awaits the leader's assignment.

::

    prepare -> (JoinGroups parked) -> complete_join -> (SyncGroups parked) -> complete_sync
       ^                                    |  no members left: Empty
       +--- a change before it is done -----+

Every member has to rejoin; the phase ends when all have, or at the rebalance timeout. A group that
was Empty first waits ``group.initial.rebalance.delay.ms`` for more members (KIP-134).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from protocol.groups.classic import answers, membership, spares
from protocol.groups.classic.rebalance_fact import report_rebalance
from protocol.groups.classic.states import ClassicGroupState, Rebalance
from protocol.groups.facts import MemberEventKind, RebalanceOutcome, RebalanceTrigger
from protocol.groups.fleet import expected
from protocol.groups.fleet.first_assignment import FirstAssignment
from protocol.groups.timers import TimerKind
from protocol.records import GroupMetadataKey, GroupMetadataValue, Record
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from protocol.groups.classic.group import ClassicGroupRuntime
    from protocol.groups.context import Context
    from protocol.groups.facts import MemberEvent
    from protocol.groups.timers import TimerKey


ONE_COMES_BACK_MS: Final = 1_000
"""The minimum wait for static members that are all away before they are counted again: their
rebalance timeout may be 0."""


EXPECTED_MAX_MS: Final = 240_000
"""The longest wait for expected instances: less than a new member's request may be parked."""


JOINS: Final = (MemberEventKind.JOINED, MemberEventKind.REJOINED, MemberEventKind.REPLACED)
"""The events of members that join."""


def prepare(
    ctx: Context,
    group: ClassicGroupRuntime,
    trigger: RebalanceTrigger,
    event: MemberEvent | None,
    now: int,
) -> None:
    """Begin a rebalance; if one is in its join phase already, check whether that phase is over.

    From now on heartbeats tell members to rejoin. ``event`` is the member event that caused the
    rebalance.
    """
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        if event is not None and event.kind in JOINS and group.rebalance is not None:
            group.rebalance.last_joined = event
            _note_joined(ctx, group, group.rebalance, event)
        maybe_complete_join(ctx, group, now)
        return
    state = group.state
    if state is ClassicGroupState.COMPLETING_REBALANCE:
        _refuse_syncs(ctx, group, now)
        report_rebalance(ctx, group, RebalanceOutcome.RESTARTED, now)
    group.pending_sync.clear()
    group.records.clear()
    ctx.timers.cancel(TimerKind.SYNC, group.group_id, "")
    group.stamp += 1
    group.state_timestamp_ms = ctx.wall.at(now)
    is_initial = state is ClassicGroupState.EMPTY
    group.rebalance = Rebalance(
        trigger=trigger,
        event=event,
        started_ms=now,
        generation_before=group.generation,
        before=group.hard.metadata,
        is_initial=is_initial,
    )
    if is_initial and expected.ids(ctx, group.group_id):
        _await_expected(ctx, group, group.rebalance, now)
    elif is_initial:
        _delay_initial(ctx, group, group.rebalance, now)
    elif group.has_all_joined:
        complete_join(ctx, group, now)
    else:
        _await_joins(ctx, group, now)


def maybe_complete_join(ctx: Context, group: ClassicGroupRuntime, now: int) -> None:
    """End the join phase when all have joined; the initial delay still runs to its end.

    A wait for expected instances ends when they are there.
    """
    rebalance = group.rebalance
    if (
        rebalance is not None
        and rebalance.phase is ClassicGroupState.PREPARING_REBALANCE
        and (not rebalance.is_initial or rebalance.first is not None)
        and not awaits_expected(ctx, group)
        and group.has_all_joined
    ):
        complete_join(ctx, group, now)


def awaits_expected(ctx: Context, group: ClassicGroupRuntime) -> bool:
    """Return whether an initial rebalance still waits for expected instances."""
    rebalance = group.rebalance
    if rebalance is None or rebalance.first is None or not group.members:
        return False
    return bool(expected.missing(ctx, group.group_id, group.static_members))


def complete_join(ctx: Context, group: ClassicGroupRuntime, now: int) -> None:
    """End the join phase: drop missing dynamic members, give the others a new generation."""
    rebalance = group.rebalance
    assert rebalance is not None
    ctx.timers.cancel(TimerKind.JOIN, group.group_id, "")
    _drop_missing(ctx, group, now)
    group.spares = spares.choose(ctx, group)
    if group.members and not group.elect_leader():
        # Only static members are left and none has joined. Their sessions decide: the phase lasts
        # until one returns or the last has expired.
        _await_joins(ctx, group, now, at_least_ms=ONE_COMES_BACK_MS)
        return
    group.generation += 1
    group.state_timestamp_ms = ctx.wall.at(now)
    rebalance.joined_ms = now
    if group.members:
        _begin_generation(ctx, group, rebalance, now)
        return
    group.protocol_name = None
    group.subscriptions = ()
    persist(ctx, group)
    report_rebalance(ctx, group, RebalanceOutcome.EMPTY, now)
    group.rebalance = None


def complete_sync(
    ctx: Context, group: ClassicGroupRuntime, assignments: Mapping[str, bytes], now: int
) -> None:
    """Make the leader's assignment the group's: persist it and answer the parked SyncGroups."""
    protocol = group.protocol_name
    records = group.records
    for member_id, member in group.members.items():
        is_spare = member_id in group.spares
        member.assignment = spares.NO_PARTITIONS if is_spare else assignments.get(member_id, b"")
        records[member_id] = member.metadata(protocol)
    group.state_timestamp_ms = ctx.wall.at(now)
    group.stamp += 1
    persist(ctx, group)
    for member in group.members.values():
        ticket = member.sync_ticket
        if ticket is not None:
            member.sync_ticket = None
            ctx.reply(ticket, answers.synced(group, member), group.group_id)
            membership.touch(ctx, group, member, now)
    report_rebalance(ctx, group, RebalanceOutcome.STABLE, now)
    group.rebalance = None


def persist(ctx: Context, group: ClassicGroupRuntime) -> None:
    """Write the present generation: with the members' records, or with none if it is empty."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.state_timestamp_ms,
        members=group.records.parts(),
    )
    ctx.emit(Record(GroupMetadataKey(group=group.group_id), value))
    ctx.result.rewritten = len(value.members)


def _begin_generation(
    ctx: Context, group: ClassicGroupRuntime, rebalance: Rebalance, now: int
) -> None:
    """Answer every JoinGroup; all members now have one rebalance timeout to send SyncGroup."""
    rebalance.phase = ClassicGroupState.COMPLETING_REBALANCE
    group.protocol_name = protocol = group.protocol_lists.select()
    members = group.members.values()
    group.subscriptions = tuple(dict.fromkeys(member.subscription(protocol) for member in members))
    group.pending_sync = dict.fromkeys(group.members)
    for member in members:
        member.is_new = False
        ticket = group.take_join(member)
        if ticket is not None:
            ctx.reply(ticket, answers.joined(group, member), group.group_id)
        membership.touch(ctx, group, member, now)
    ctx.timers.set(TimerKind.SYNC, group.group_id, "", now + group.rebalance_timeout_ms)


def _drop_missing(ctx: Context, group: ClassicGroupRuntime, now: int) -> None:
    """Remove the dynamic members that did not join; static ones leave by session timeout only."""
    if group.awaiting_join == len(group.members):
        return
    missing = [
        member
        for member in group.members.values()
        if member.join_ticket is None and member.group_instance_id is None
    ]
    for member in missing:
        membership.drop(ctx, group, member)
        event = membership.event(ctx, group, member, MemberEventKind.NOT_REJOINED, now)
        group.event_log.note(ctx, event)


def _refuse_syncs(ctx: Context, group: ClassicGroupRuntime, now: int) -> None:
    """Refuse the parked SyncGroups, so that their members rejoin."""
    for member in group.members.values():
        member.assignment = b""
        if member.sync_ticket is not None:
            membership.answer_sync(ctx, group, member, ErrorCode.rebalance_in_progress)
            membership.touch(ctx, group, member, now)


def _delay_initial(
    ctx: Context, group: ClassicGroupRuntime, rebalance: Rebalance, now: int
) -> None:
    """Wait for more members, at most for the first member's rebalance timeout."""
    delay_ms = ctx.configs.integer("group.initial.rebalance.delay.ms")
    rebalance.delay_ms = delay_ms
    rebalance.remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
    ctx.timers.set(TimerKind.JOIN, group.group_id, "", now + delay_ms)


def _await_expected(
    ctx: Context, group: ClassicGroupRuntime, rebalance: Rebalance, now: int
) -> None:
    """Wait for the instances that the group expects: at most for its limit, and for Kafka's."""
    rebalance.first = FirstAssignment(now)
    wait_ms = min(expected.wait_ms(ctx, group.group_id), group.rebalance_timeout_ms)
    wait_ms = min(wait_ms, EXPECTED_MAX_MS)
    ctx.timers.set(TimerKind.JOIN, group.group_id, "", now + wait_ms)
    if rebalance.event is not None:
        _note_joined(ctx, group, rebalance, rebalance.event)
    maybe_complete_join(ctx, group, now)


def _note_joined(
    ctx: Context, group: ClassicGroupRuntime, rebalance: Rebalance, event: MemberEvent
) -> None:
    if rebalance.first is not None:
        expected.note(ctx, group.group_id, rebalance.first, event.group_instance_id)


def configs_changed(ctx: Context, group_ids: Sequence[str]) -> None:
    """Apply new configs to groups that wait: they may expect nobody any more."""
    for group_id in group_ids:
        group = ctx.classic_runtime.get(group_id)
        if group is None or group.rebalance is None or group.rebalance.first is None:
            continue
        if group.state is ClassicGroupState.PREPARING_REBALANCE and not awaits_expected(ctx, group):
            ctx.timers.set(TimerKind.JOIN, group_id, "", 0)


def _extend_initial(
    ctx: Context, group: ClassicGroupRuntime, rebalance: Rebalance, now: int
) -> None:
    """Wait once more, because a new member joined meanwhile."""
    rebalance.has_new_member = False
    remaining_ms = rebalance.remaining_ms
    delay_ms = min(ctx.configs.integer("group.initial.rebalance.delay.ms"), remaining_ms)
    rebalance.remaining_ms = max(remaining_ms - rebalance.delay_ms, 0)
    rebalance.delay_ms = delay_ms
    ctx.timers.set(TimerKind.JOIN, group.group_id, "", now + delay_ms)


def _await_joins(ctx: Context, group: ClassicGroupRuntime, now: int, at_least_ms: int = 0) -> None:
    wait_ms = max(group.rebalance_timeout_ms, at_least_ms)
    ctx.timers.set(TimerKind.JOIN, group.group_id, "", now + wait_ms)


def join_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """End the join phase, or its initial delay, without the members that are still missing."""
    group = ctx.classic_runtime.get(key.group_id)
    rebalance = None if group is None else group.rebalance
    if group is None or rebalance is None:
        return
    if rebalance.is_initial and rebalance.has_new_member and rebalance.remaining_ms > 0:
        _extend_initial(ctx, group, rebalance, now)
    else:
        complete_join(ctx, group, now)


def sync_timeout(ctx: Context, key: TimerKey, now: int) -> None:
    """Rebalance without the dynamic members that did not fetch their assignment in time.

    A static member is not removed for this (KIP-345: only the session timeout removes it). In a
    Stable group it gets its assignment whenever it asks. If it was the leader and its assignment is
    missing, the new rebalance picks another leader.
    """
    group = ctx.classic_runtime.get(key.group_id)
    if group is None or not group.pending_sync:
        return
    late = [group.members[member_id] for member_id in group.pending_sync]
    dynamic = [member for member in late if member.group_instance_id is None]
    if not dynamic and group.state is ClassicGroupState.STABLE:
        group.pending_sync.clear()
        return
    for member in dynamic:
        membership.drop(ctx, group, member)
        group.event_log.note(
            ctx, membership.event(ctx, group, member, MemberEventKind.NOT_SYNCED, now)
        )
    event = membership.event(ctx, group, late[0], MemberEventKind.NOT_SYNCED, now)
    prepare(ctx, group, RebalanceTrigger.SYNC_TIMEOUT, event, now)


TIMEOUTS: Final[Mapping[str, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {TimerKind.JOIN: join_timeout, TimerKind.SYNC: sync_timeout}
)
