"""Classic groups: the door for the other modules, and the table of contents.

==================== ===========================================================================
``classic_join``     JoinGroup
``classic_static``   a static member that takes its place again (KIP-345)
``classic_sync``     SyncGroup, Heartbeat
``classic_leave``    LeaveGroup, the session timeout
``rebalance``        the two phases of a rebalance, and their timeouts
``rebuild``          soft state from hard state after an election
``describe``         DescribeGroups, ListGroups, DeleteGroups
==================== ===========================================================================

Committed offsets ask here what a group allows (``check_commit`` and below).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from protocol.groups.classic import answers, membership, rebalance, rebuild
from protocol.groups.classic import join as classic_join
from protocol.groups.classic import leave as classic_leave
from protocol.groups.classic import sync as classic_sync
from protocol.groups.classic.group import CONSUMER, NO_GENERATION, ClassicGroup
from protocol.groups.classic.states import ClassicGroupState
from protocol.groups.classic.story import tell
from protocol.groups.facts import GroupDeleted, RebalanceOutcome
from protocol.groups.timers import TimerKind
from protocol.records import GroupMetadataKey, GroupMetadataValue, Record
from protocol.wire.embedded import decode_subscription
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import OffsetCommitRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.timers import TimerKey


class Shown(NamedTuple):
    """A group from outside: its state, since when (Unix milliseconds, -1: not known), its type."""

    state: ClassicGroupState
    protocol_type: str
    state_timestamp_ms: int


def check_commit(ctx: Context, request: Request, now: int) -> None:
    """Refuse a commit that the group's state or the member's standing does not allow.

    A commit without generation and member is a simple consumer's or an administrator's: allowed
    while the group is Empty or unknown. A member's commit keeps its session alive.
    """
    message = request.message
    assert isinstance(message, OffsetCommitRequest)
    generation = message.generation_id_or_member_epoch
    group = rebuild.find(ctx, message.group_id, now)
    if group is None:
        if generation >= 0:
            raise KafkaError(
                ErrorCode.group_id_not_found
                if request.api_version >= 9
                else ErrorCode.illegal_generation
            )
        return
    state = group.state
    if generation < 0 and state is ClassicGroupState.EMPTY:
        return
    if generation < 0 and not message.member_id and message.group_instance_id is None:
        raise KafkaError(ErrorCode.unknown_member_id)
    member = membership.find(ctx, group, (message.member_id, message.group_instance_id), now)
    if generation != group.generation:
        raise KafkaError(ErrorCode.illegal_generation)
    if state is ClassicGroupState.COMPLETING_REBALANCE:
        raise KafkaError(ErrorCode.rebalance_in_progress)
    membership.touch(ctx, group, member, now)


def check_offset_delete(ctx: Context, group_id: str) -> None:
    """Refuse to delete offsets of no group, or of a group whose subscriptions nobody here reads."""
    looks = shown(ctx, group_id)
    if looks is None:
        raise KafkaError(ErrorCode.group_id_not_found)
    if looks.state is not ClassicGroupState.EMPTY and looks.protocol_type != CONSUMER:
        raise KafkaError(ErrorCode.non_empty_group)


def has_subscribed(ctx: Context, group_id: str, topic: str) -> bool:
    """Whether a member of the generation is subscribed to the topic.

    A consumer group whose subscriptions cannot be read may be subscribed to anything.
    """
    topics = subscribed_topics(ctx, group_id)
    if topics is None:
        looks = shown(ctx, group_id)
        return looks is not None and looks.protocol_type == CONSUMER
    return topic in topics


def subscribed_topics(ctx: Context, group_id: str) -> frozenset[str] | None:
    """Name the topics that the generation's members are subscribed to; None if nobody can tell."""
    group = ctx.live.get(group_id)
    if group is None:
        hard = ctx.groups.get(group_id)
        if not isinstance(hard, ClassicGroup) or hard.metadata.protocol_type != CONSUMER:
            return None
        return _topics_of(tuple(member.subscription for member in hard.metadata.members))
    if group.protocol_type != CONSUMER:
        return None
    if group.topics_of is not group.subscriptions:
        group.topics = _topics_of(group.subscriptions)
        group.topics_of = group.subscriptions
    return group.topics


def _topics_of(subscriptions: tuple[bytes, ...]) -> frozenset[str] | None:
    topics: set[str] = set()
    for data in subscriptions:
        subscription = decode_subscription(data)
        if subscription is None:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)


def shown(ctx: Context, group_id: str) -> Shown | None:
    """Say how a group looks from outside; None if there is no such group."""
    group = ctx.live.get(group_id)
    if group is not None:
        return Shown(group.state, group.protocol_type or "", group.state_timestamp_ms)
    hard = ctx.groups.get(group_id)
    if not isinstance(hard, ClassicGroup):
        return None
    metadata = hard.metadata
    state = ClassicGroupState.STABLE if metadata.members else ClassicGroupState.EMPTY
    return Shown(state, metadata.protocol_type, metadata.current_state_timestamp)


def has_members(ctx: Context, group_id: str) -> bool:
    """Whether a classic group has members; an Empty one or none at all has not."""
    group = ctx.live.get(group_id)
    if group is not None:
        return bool(group.members)
    hard = ctx.groups.get(group_id)
    return isinstance(hard, ClassicGroup) and bool(hard.metadata.members)


def delete_if_empty(ctx: Context, group_id: str, now: int) -> None:
    """Delete a group that nobody is in or is about to join."""
    group = ctx.live.get(group_id)
    has_pending = group is not None and bool(group.pending)
    looks = shown(ctx, group_id)
    if looks is not None and looks.state is ClassicGroupState.EMPTY and not has_pending:
        delete(ctx, group_id, now)


def delete(ctx: Context, group_id: str, now: int) -> None:
    """Delete an Empty group whose offsets are gone; ids given out for it are void."""
    ctx.emit(Record(GroupMetadataKey(group=group_id), None))
    forget(ctx, group_id)
    ctx.fact(GroupDeleted(group_id=group_id, time_ms=now))


def make_way(ctx: Context, group_id: str, now: int) -> None:
    """Let a group of another type have the id of a group without members; its offsets stay."""
    live = ctx.live.get(group_id)
    if live is not None and live.rebalance is not None:
        for kind in (TimerKind.JOIN, TimerKind.SYNC):
            ctx.timers.cancel(kind, group_id, "")
        tell(ctx, live, RebalanceOutcome.RESTARTED, now)
    group = ctx.groups.get(group_id)
    if isinstance(group, ClassicGroup) and group.metadata is not NO_GENERATION:
        delete(ctx, group_id, now)
    else:
        forget(ctx, group_id)


def forget(ctx: Context, group_id: str) -> None:
    """Drop the soft state of a group that is gone, or becomes another type of group."""
    group = ctx.live.pop(group_id, None)
    if group is not None:
        group.stamp += 1
        for member_id in list(group.pending):
            membership.drop_pending(ctx, group, member_id)


def resigned(ctx: Context) -> None:
    """Stop leading: send off whoever waits, end every lease, forget the soft state."""
    for group in ctx.live.values():
        group.stamp += 1
        for member in group.members.values():
            ticket = group.take_join(member)
            if ticket is not None:
                refusal = answers.join_refused(ErrorCode.not_coordinator, member.member_id)
                ctx.reply(ticket, refusal, None)
            if member.sync_ticket is not None:
                ctx.reply(member.sync_ticket, answers.sync_refused(ErrorCode.not_coordinator), None)
                member.sync_ticket = None
    ctx.live.clear()
    ctx.unbuilt.clear()
    ctx.timers.clear()
    ctx.elected_ms = None


def replay_group_metadata(
    ctx: Context, key: GroupMetadataKey, value: GroupMetadataValue | None
) -> None:
    """Apply a generation; a tombstone removes the group."""
    group = ctx.groups.get(key.group)
    if value is None:
        if isinstance(group, ClassicGroup):
            del ctx.groups[key.group]
    elif isinstance(group, ClassicGroup):
        group.metadata = value
    else:
        ctx.groups[key.group] = ClassicGroup(value)


HANDLERS: Final[Mapping[int, Callable[[Context, Request, int], None]]] = MappingProxyType(
    {**classic_join.HANDLERS, **classic_sync.HANDLERS, **classic_leave.HANDLERS}
)
REPLAYS: Final[Mapping[type, Callable[[Context, Any, Any], None]]] = MappingProxyType(
    {GroupMetadataKey: replay_group_metadata}
)
TIMEOUTS: Final[Mapping[TimerKind, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {**classic_leave.TIMEOUTS, **rebalance.TIMEOUTS}
)
