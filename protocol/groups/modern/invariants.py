"""The invariants of a shard's modern groups, which hold between any two events."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from protocol.groups.modern.hard_state import ModernGroup
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.timers import TimerKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.groups.context import Context
    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.topic_numbers import Partition


def broken(ctx: Context) -> Iterator[str]:
    """Return every invariant that does not hold."""
    for group_id, group in ctx.groups.items():
        if isinstance(group, ModernGroup):
            for checks in (_owners, _epochs, _topics, _counts):
                yield from (f"{group_id}: {sentence}" for sentence in checks(group))
    for group_id, runtime in ctx.modern_runtime.items():
        yield from (f"{group_id}: {sentence}" for sentence in _sessions(ctx, runtime))
        if ctx.groups.get(group_id) is not runtime.group:
            yield f"{group_id}: the soft state has lost its hard state"
        if group_id in ctx.classic_runtime:
            yield f"{group_id}: it is a classic group as well"


def _owners(group: ModernGroup[Any]) -> Iterator[str]:
    """Each exclusive place has at most one holder: the member in the maintained sums."""
    holders: dict[Partition, str] = {}
    exclusive = group.kind.form.exclusive
    for member_id, member in group.members.items():
        assignment = member.assignment
        if assignment.assigned.keys() & assignment.revoking.keys():
            yield f"{member_id} both has and gives up a partition"
        for partition in exclusive(assignment.assigned.keys() | assignment.revoking.keys()):
            if partition in holders:
                yield f"{member_id} and {holders[partition]} hold the same partition"
            holders[partition] = member_id
    if holders != group.holders:
        yield "the holders of partitions are not those that members are said to be"


def _epochs(group: ModernGroup[Any]) -> Iterator[str]:
    if group.assignment_epoch > group.epoch:
        yield "the target assignment is ahead of the group"
    for member_id, member in group.members.items():
        assignment = member.assignment
        if assignment.epoch > group.assignment_epoch:
            yield f"{member_id} is ahead of the target assignment"
        if any(epoch > max(assignment.epoch, 0) for epoch in assignment.assigned.values()):
            yield f"{member_id} got a partition in an epoch that it has not reached"
        if assignment.state is not MemberState.UNREVOKED_PARTITIONS and assignment.revoking:
            yield f"{member_id} gives up partitions and nobody waits for it"


def _topics(group: ModernGroup[Any]) -> Iterator[str]:
    """Topics and subscriptions are counted and numbered correctly."""
    if group.subscriptions_by_number != {
        each.number: each for each in group.subscriptions.values()
    }:
        yield "a subscription is filed under another number"
    topics = Counter(name for each in group.subscriptions.values() for name in each.names)
    topics.update(name for each in group.regexes.values() for name in each.topics)
    topics.update(group.own_topics())
    if topics != Counter(group.topics):
        yield "the topics are miscounted"
    names = group.name_numbers.names
    if {name for name in names if name} != {name for name in topics if name}:
        yield "the numbered names are not those of the topics"
    if any(
        {names[number] for number in each.row.tolist()} != each.names
        for each in group.subscriptions.values()
    ):
        yield "a subscription's numbers are not those of its names"


def _counts(group: ModernGroup[Any]) -> Iterator[str]:
    """Every maintained sum equals a recount."""
    members = group.members.values()
    stable = (m.assignment.epoch for m in members if m.assignment.state is MemberState.STABLE)
    if Counter(stable) != +group.settled:
        yield "the settled members are miscounted"
    if Counter(m.subscription.number for m in members) != Counter(
        {each.number: each.members for each in group.subscriptions.values()}
    ):
        yield "the subscriptions are miscounted"
    static = {m.instance_id: m.member_id for m in members if m.instance_id is not None}
    if static != group.static_members:
        yield "the static members are not those of the map"
    if group.targets.keys() - group.members.keys():
        yield "somebody who is not a member has a target"
    if any(member.member_id != member_id for member_id, member in group.members.items()):
        yield "a member is filed under another id"


def _sessions(ctx: Context, runtime: ModernGroupRuntime) -> Iterator[str]:
    """No wait is unbounded: each has its timer, and work that is due is under way."""
    timers, name, group = ctx.timers, runtime.group_id, runtime.group
    if runtime.sessions.keys() - group.members.keys():
        yield "somebody who is not a member has a session"
    if group.members.keys() - runtime.sessions.keys() - {*runtime.unarmed}:
        yield "a member has no session"
    for member_id, session in runtime.sessions.items():
        armed = timers.deadline(TimerKind.MEMBER_SESSION, name, member_id)
        if armed is None or armed > session.session_deadline_ms:
            yield f"the session of {member_id} is not watched"
        assignment = session.member.assignment
        is_awaited = assignment.state is MemberState.UNREVOKED_PARTITIONS and assignment.epoch >= 0
        is_awaited &= session.member.revocation_timer == TimerKind.REVOCATION
        if is_awaited != (timers.deadline(TimerKind.REVOCATION, name, member_id) is not None):
            yield f"the rebalance timeout of {member_id} is not what its state asks for"
    lags = group.epoch > group.assignment_epoch and bool(group.members)
    waits = timers.deadline(TimerKind.ASSIGNMENT, name, "") is not None
    writes = timers.deadline(TimerKind.TARGET, name, "") is not None
    refreshes = timers.deadline(TimerKind.REFRESH, name, "") is not None
    if lags and not (waits or writes or refreshes) and runtime.failed_epoch < group.epoch:
        yield "the target assignment lags behind and nobody sees to it"
    if (runtime.target_write is not None) != writes:
        yield "a target assignment is half written and its timer is not set"
