"""Build soft state from hard state: how a new leader begins to serve classic groups.

A group is built when a request or timer first needs it, or when its turn comes (``election``).
Whenever it is built, its members have their whole session timeout, counted from the election.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.classic import membership, rebalance
from protocol.groups.classic.group import (
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupRuntime,
    protocol_list_of,
)
from protocol.groups.facts import RebalanceTrigger
from protocol.records import GroupMetadataKey, GroupMetadataValue, Record
from protocol.wire.messages import JoinGroupRequestProtocol

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.records import MemberMetadata


def find(ctx: Context, group_id: str, now: int) -> ClassicGroupRuntime | None:
    """Return a classic group, built if needed; None if there is no such group."""
    group = ctx.classic_runtime.get(group_id)
    if group is None:
        hard = ctx.groups.get(group_id)
        if isinstance(hard, ClassicGroup):
            group = _build(ctx, group_id, hard, now)
    return group


def find_or_create(ctx: Context, group_id: str, now: int) -> ClassicGroupRuntime:
    """Return a group; create an unknown one as Empty and write it."""
    group = find(ctx, group_id, now)
    if group is None:
        empty = GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=ctx.wall.at(now),
            members=(),
        )
        ctx.emit(Record(GroupMetadataKey(group=group_id), empty))
        hard = ctx.groups[group_id]
        assert isinstance(hard, ClassicGroup)
        group = _build(ctx, group_id, hard, now)
    return group


def _build(ctx: Context, group_id: str, hard: ClassicGroup, now: int) -> ClassicGroupRuntime:
    metadata = hard.metadata
    group = ClassicGroupRuntime(
        group_id=group_id,
        hard=hard,
        generation=metadata.generation,
        protocol_type=metadata.protocol_type or None,
        protocol_name=metadata.protocol,
        leader_id=metadata.leader,
        state_timestamp_ms=metadata.current_state_timestamp,
    )
    ctx.classic_runtime[group_id] = group
    elected_ms = now if ctx.elected_ms is None else ctx.elected_ms
    for loaded in metadata.members:
        member = _member(loaded, metadata.protocol or "")
        group.add(member, metadata.protocol_type)
        group.records[member.member_id] = loaded
        membership.arm(ctx, group, member, elected_ms + member.session_timeout_ms)
    subscriptions = (member.subscription for member in metadata.members)
    group.subscriptions = tuple(dict.fromkeys(subscriptions))
    if len(group.members) > ctx.configs.integer("group.max.size"):
        # The limit was lowered: let all members commit and rejoin, and refuse the last ones.
        rebalance.prepare(ctx, group, RebalanceTrigger.OVER_CAPACITY, None, now)
    elif metadata.members and metadata.leader is None:
        rebalance.prepare(ctx, group, RebalanceTrigger.DOWNGRADED, None, now)
    return group


def _member(loaded: MemberMetadata, protocol: str) -> ClassicGroupMember:
    """Build a member that offers only the protocol that was persisted."""
    timeout_ms = loaded.rebalance_timeout
    protocols = (JoinGroupRequestProtocol(name=protocol, metadata=loaded.subscription),)
    return ClassicGroupMember(
        member_id=loaded.member_id,
        group_instance_id=loaded.group_instance_id,
        client_id=loaded.client_id,
        client_host=loaded.client_host,
        session_timeout_ms=loaded.session_timeout,
        rebalance_timeout_ms=loaded.session_timeout if timeout_ms == -1 else timeout_ms,
        protocols=protocols,
        protocol_list=protocol_list_of(protocols),
        assignment=loaded.assignment,
    )
