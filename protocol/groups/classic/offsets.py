"""What a classic group allows with committed offsets, and when they begin to expire (KIP-211)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.classic import membership, rebuild
from protocol.groups.classic.group import CONSUMER, ClassicGroup
from protocol.groups.classic.lifecycle import snapshot_of
from protocol.groups.classic.states import ClassicGroupState
from protocol.groups.group_type import OffsetPolicy
from protocol.groups.offsets.expiry import committed_ms
from protocol.wire.embedded import decode_subscription
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import OffsetCommitRequest

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.group_type import RetentionStart
    from protocol.wire.messages import OffsetFetchRequestGroup


def check_commit(ctx: Context, request: Request, now: int) -> None:
    """Refuse a commit that the group's state or the member's epoch and ids do not allow.

    A commit without generation and member comes from a simple consumer or an administrator: it is
    allowed while the group is Empty or unknown. A member's commit keeps its session alive.
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


def check_fetch(_ctx: Context, _asked: OffsetFetchRequestGroup) -> None:
    """Allow every client to read: membership does not matter to classic groups (as in Kafka)."""


def check_offset_delete(ctx: Context, group_id: str) -> None:
    """Refuse if the group does not exist, or if its subscriptions cannot be read."""
    snapshot = snapshot_of(ctx, group_id)
    if snapshot is None:
        raise KafkaError(ErrorCode.group_id_not_found)
    if snapshot.state is not ClassicGroupState.EMPTY and snapshot.protocol_type != CONSUMER:
        raise KafkaError(ErrorCode.non_empty_group)


def has_subscribed(ctx: Context, group_id: str, topic: str) -> bool:
    """Whether a member of the generation is subscribed to the topic.

    A consumer group whose subscriptions cannot be read may be subscribed to anything.
    """
    topics = subscribed_topics(ctx, group_id)
    if topics is None:
        snapshot = snapshot_of(ctx, group_id)
        return snapshot is not None and snapshot.protocol_type == CONSUMER
    return topic in topics


def subscribed_topics(ctx: Context, group_id: str) -> frozenset[str] | None:
    """Return the topics that the generation's members subscribe to; None if not known."""
    group = ctx.classic_runtime.get(group_id)
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


def retention_start(ctx: Context, group_id: str) -> RetentionStart | None:
    """Return a function that says when an offset's retention begins; None if all are kept.

    For a group that has had members, retention begins when it became Empty. For a simple consumer,
    and for a topic that no member of a Stable group subscribes to any more, it begins at the
    commit.
    """
    snapshot = snapshot_of(ctx, group_id)
    assert snapshot is not None
    if snapshot.state is ClassicGroupState.EMPTY:
        since_ms = snapshot.state_timestamp_ms
        if snapshot.protocol_type and since_ms != -1:
            return lambda _: since_ms
        return committed_ms
    is_readable = subscribed_topics(ctx, group_id) is not None
    if snapshot.state is ClassicGroupState.STABLE and is_readable:
        return committed_ms
    return None


POLICY: Final = OffsetPolicy(
    check_commit=check_commit,
    check_fetch=check_fetch,
    check_delete=check_offset_delete,
    subscribed_topics=subscribed_topics,
    is_subscribed=has_subscribed,
    retention_start=retention_start,
)
