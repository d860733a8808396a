"""The invariants of a shard's classic groups, which hold between any two events."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from protocol.groups.classic.states import ClassicGroupState
from protocol.groups.timers import TimerKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.groups.classic.group import ClassicGroupRuntime
    from protocol.groups.context import Context


def broken(ctx: Context) -> list[str]:
    """Return every invariant that does not hold, one sentence each; empty when all hold."""
    sentences: list[str] = []
    for group in ctx.classic_runtime.values():
        for checks in (_counts, _standing, _phases, _timers):
            sentences += [f"{group.group_id}: {sentence}" for sentence in checks(ctx, group)]
        if ctx.groups.get(group.group_id) is not group.hard:
            sentences.append(f"{group.group_id}: the soft state has lost its hard state")
    return sentences


def _counts(_: Context, group: ClassicGroupRuntime) -> Iterator[str]:
    """Every maintained count equals a recount."""
    members = group.members.values()
    if group.awaiting_join != sum(member.join_ticket is not None for member in members):
        yield "the number of parked JoinGroups is wrong"
    if Counter(member.protocol_list for member in members) != group.protocol_lists.lists:
        yield "the votes are miscounted"
    static = {m.group_instance_id: m.member_id for m in members if m.group_instance_id is not None}
    if static != group.static_members:
        yield "the static members are not those of the map"
    if [member.member_id for member in members] != list(group.members):
        yield "a member is filed under another id"


def _standing(_: Context, group: ClassicGroupRuntime) -> Iterator[str]:
    """Each id has one role at a time, and every leader or parked member is in the group."""
    if (group.leader_id is None) == bool(group.members):
        yield "a group has a leader when it has members, and only then"
    if group.leader_id is not None and group.leader_id not in group.members:
        yield "the leader is not a member"
    if group.pending.keys() & group.members.keys():
        yield "a member is pending"
    if group.pending_sync.keys() - group.members.keys():
        yield "somebody who is not a member is awaited for its sync"
    if group.members and not group.protocol_lists.select():
        yield "no protocol is common to all members"


def _phases(_: Context, group: ClassicGroupRuntime) -> Iterator[str]:
    """Parked requests and persisted state fit the state of the group."""
    members = group.members.values()
    state = group.state
    preparing = state is ClassicGroupState.PREPARING_REBALANCE
    completing = state is ClassicGroupState.COMPLETING_REBALANCE
    if not preparing and any(member.join_ticket is not None for member in members):
        yield f"a JoinGroup is parked while the group is {state}"
    if not completing and any(member.sync_ticket is not None for member in members):
        yield f"a SyncGroup is parked while the group is {state}"
    hard = group.hard.metadata
    if group.rebalance is None:
        ids = {member.member_id: member.assignment for member in hard.members}
        if ids != {member.member_id: member.assignment for member in members}:
            yield "a settled group is not as it was persisted"
        if (hard.generation, hard.protocol) != (group.generation, group.protocol_name):
            yield "a settled group has another generation or protocol than was persisted"
        written = [part.member_id for part in group.records.parts()]
        if list(group.records) != list(group.members) or written != list(group.members):
            yield "the members' records are not the members'"
    elif group.generation < hard.generation:
        yield "a rebalance went back behind what was persisted"


def _timers(ctx: Context, group: ClassicGroupRuntime) -> Iterator[str]:
    """No wait is unbounded: each has its timer, and no timer runs without one."""
    timers = ctx.timers
    name = group.group_id
    for member in group.members.values():
        armed = timers.deadline(TimerKind.SESSION, name, member.member_id)
        if armed is None and (not member.is_parked or member.is_new):
            yield f"nobody watches the session of {member.member_id}"
        if armed is not None and armed > member.session_deadline_ms:
            yield f"the session of {member.member_id} is watched too late"
    for member_id in group.pending:
        if timers.deadline(TimerKind.SESSION, name, member_id) is None:
            yield f"nobody watches the pending member {member_id}"
    state = group.state
    joins = timers.deadline(TimerKind.JOIN, name, "") is not None
    if joins != (state is ClassicGroupState.PREPARING_REBALANCE):
        yield f"the join timer runs: {joins}, while the group is {state}"
    syncs = timers.deadline(TimerKind.SYNC, name, "") is not None
    if syncs != bool(group.pending_sync):
        yield f"the sync timer runs: {syncs}, with {len(group.pending_sync)} members late"
