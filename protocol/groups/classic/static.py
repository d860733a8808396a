"""Static membership (KIP-345): an instance that returns without a member id takes its old place.

It gets a new member id and keeps its assignment, its generation and the lead; the old id is fenced
from then on. In a Stable group nothing else happens, unless the group would now choose another
protocol, or the member subscribes to other topics (KAFKA-12759: the leader has to know). The new id
is persisted before the answer is sent, so that a failover does not restore the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.classic import answers, membership, rebalance
from protocol.groups.classic.join_request import has_other_topics, update
from protocol.groups.classic.states import ClassicGroupState
from protocol.groups.facts import MemberEvent, MemberEventKind, RebalanceTrigger
from protocol.groups.timers import TimerKind

if TYPE_CHECKING:
    from protocol.groups.classic.group import ClassicGroupMember, ClassicGroupRuntime
    from protocol.groups.classic.join_request import Join
    from protocol.groups.context import Context


def take_over(ctx: Context, group: ClassicGroupRuntime, join: Join, new_member_id: str) -> None:
    """Give the request's instance its member's place under a new member id."""
    member = group.members[group.static_members[join.message.group_instance_id or ""]]
    previous_leader = group.leader_id
    is_stable = group.state is ClassicGroupState.STABLE
    subscribed = _subscribed(group, member) if is_stable else None
    previous_member_id = member.member_id
    _replace(ctx, group, member, join, new_member_id)
    if is_stable:
        if group.protocol_lists.select() != group.protocol_name:
            trigger = RebalanceTrigger.STATIC_PROTOCOL_CHANGED
        elif has_other_topics(group, subscribed, _subscribed(group, member)):
            trigger = RebalanceTrigger.STATIC_SUBSCRIPTION_CHANGED
        else:
            event = _replaced(member, join, previous_member_id, changes_nothing=True)
            group.event_log.note(ctx, event)
            _keep_generation(ctx, group, member, join, previous_leader)
            return
    else:
        # The leader may be computing an assignment for the old member id, which would be lost.
        trigger = RebalanceTrigger.STATIC_MEMBER_REPLACED
    event = _replaced(member, join, previous_member_id)
    group.event_log.note(ctx, event)
    membership.park_join(ctx, group, member, join.request.ticket)
    rebalance.prepare(ctx, group, trigger, event, join.now)


def _subscribed(group: ClassicGroupRuntime, member: ClassicGroupMember) -> bytes | None:
    """Return a member's metadata for the generation's protocol; None if there is none."""
    return member.subscription(group.protocol_name) if group.protocol_name else None


def _replace(
    ctx: Context,
    group: ClassicGroupRuntime,
    member: ClassicGroupMember,
    join: Join,
    new_member_id: str,
) -> None:
    membership.fence(ctx, group, member)
    ctx.timers.cancel(TimerKind.SESSION, group.group_id, member.member_id)
    group.replace(member, new_member_id)
    update(group, member, join)
    member.is_new = False
    membership.touch(ctx, group, member, join.now)


def _replaced(
    member: ClassicGroupMember,
    join: Join,
    previous_member_id: str,
    *,
    changes_nothing: bool = False,
) -> MemberEvent:
    client = join.request.client
    return MemberEvent(
        group_id=join.message.group_id,
        time_ms=join.now,
        kind=MemberEventKind.REPLACED,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=client.client_id,
        client_host=client.host,
        reason=membership.cut(join.message.reason),
        previous_member_id=previous_member_id,
        client_software=client.software,
        changes_nothing=changes_nothing,
    )


def _keep_generation(
    ctx: Context,
    group: ClassicGroupRuntime,
    member: ClassicGroupMember,
    join: Join,
    previous_leader: str | None,
) -> None:
    """Persist the new member id and answer with the present generation.

    From JoinGroup 9 on, a returning leader learns that it leads but need not assign (KIP-814).
    Before that it is told that another member leads: the answer names its own old id.
    """
    group.records[member.member_id] = member.metadata(group.protocol_name)
    rebalance.persist(ctx, group)
    if join.request.api_version >= 9:
        is_leader = group.leader_id == member.member_id
        answer = answers.joined(group, member, skip_assignment=is_leader)
    else:
        answer = answers.joined(group, member, leader=previous_leader)
    ctx.reply(join.request.ticket, answer, group.group_id)
