"""What a consumer group allows with committed offsets, by member epoch (KIP-848, KIP-1251).

A commit in the member's current epoch is accepted. One of an earlier epoch is accepted for
partitions that the member has held since then: the client had not yet seen the new epoch, but no
other member can have had the partition in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.group_type import OffsetPolicy
from protocol.groups.modern import offsets as modern
from protocol.groups.topic_numbers import TOPIC_SHIFT
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import OffsetCommitRequest

if TYPE_CHECKING:
    from collections.abc import Set

    from protocol.groups.consumer.group import ConsumerGroupMember
    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.group_type import CommitCheck
    from protocol.groups.topics import Topic


def check_commit(ctx: Context, request: Request, _now: int) -> CommitCheck | None:
    """Refuse a commit that the member's epoch does not allow.

    Return the check still to be made for each partition; None: no check.
    """
    message = request.message
    assert isinstance(message, OffsetCommitRequest)
    group = _group(ctx, message.group_id)
    epoch = message.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return None  # from an administrator, or a consumer without a group
    member = group.member(message.member_id)
    if not member.is_classic and request.api_version < modern.EPOCHS_SINCE:
        raise KafkaError(ErrorCode.unsupported_version)
    known = member.assignment.epoch
    if epoch == known:
        return None
    if epoch > known:
        raise KafkaError(member.stale_epoch)
    return _since(ctx, member, epoch)


def _since(ctx: Context, member: ConsumerGroupMember, epoch: int) -> CommitCheck:
    assignment = member.assignment

    def check(topic: Topic, index: int) -> None:
        number = ctx.numbers.known(topic.topic_id)
        partition = -1 if number is None else number << TOPIC_SHIFT | index
        since = assignment.assigned.get(partition, assignment.revoking.get(partition))
        if since is None or epoch < since:
            raise KafkaError(member.stale_epoch)

    return check


def _subscribed_topics(ctx: Context, group_id: str) -> Set[str]:
    return _group(ctx, group_id).topics.keys()


def _is_subscribed(ctx: Context, group_id: str, topic: str) -> bool:
    return topic in _group(ctx, group_id).topics


def _group(ctx: Context, group_id: str) -> ConsumerGroup:
    group = ctx.groups[group_id]
    assert isinstance(group, ConsumerGroup)
    return group


POLICY: Final = OffsetPolicy(
    check_commit=check_commit,
    check_fetch=modern.check_fetch,
    check_delete=modern.check_delete,
    subscribed_topics=_subscribed_topics,
    is_subscribed=_is_subscribed,
    retention_start=modern.retention_start,
)
