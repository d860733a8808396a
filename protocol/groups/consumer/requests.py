"""Checks of a ConsumerGroupHeartbeat, and the partitions that it reports."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from protocol.groups.consumer.group import KIND
from protocol.groups.modern.hard_state import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from protocol.groups.topic_numbers import TOPIC_SHIFT
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.topic_numbers import Partition
    from protocol.wire.messages import ConsumerGroupHeartbeatRequest

MEMBER_ID_SINCE: Final = 1
"""The first version whose members choose their own ids (KIP-1082)."""

TEXT_LENGTH_MAX: Final = 32_767
"""Characters that fit into a Kafka string in any version; longer ids and names are refused."""


def check(ctx: Context, message: ConsumerGroupHeartbeatRequest, api_version: int) -> None:
    """Refuse a request that lacks a field or contradicts itself."""
    check_served(ctx)
    epoch = message.member_epoch
    has_id = api_version >= MEMBER_ID_SINCE or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
    for name, text in (
        ("MemberId", message.member_id if has_id else None),
        ("GroupId", message.group_id),
        ("InstanceId", message.instance_id),
        ("RackId", message.rack_id),
    ):
        if text is not None and not text.strip():
            raise _invalid(f"{name} can't be empty.")
    for text in (message.member_id, message.group_id, message.instance_id, message.rack_id):
        if text is not None and len(text) > TEXT_LENGTH_MAX:
            raise _invalid("An id is too long.")
    if epoch == JOIN_EPOCH:
        _check_join(message)
    elif epoch == STATIC_LEAVE_EPOCH and message.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    assignor, known = message.server_assignor, ctx.configs.strings(KIND.configs.assignors)
    if assignor is not None and assignor not in known:
        raise KafkaError(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(known)}.",
        )


def check_served(ctx: Context) -> None:
    """Refuse if consumer groups are disabled."""
    if "consumer" not in ctx.configs.strings("group.coordinator.rebalance.protocols"):
        raise KafkaError(ErrorCode.unsupported_version)


def _check_join(message: ConsumerGroupHeartbeatRequest) -> None:
    if message.rebalance_timeout == timedelta(milliseconds=-1):
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if message.topic_partitions is None or message.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if message.subscribed_topic_names is None and message.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"
            " when (re-)joining."
        )


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, sentence)


def owned_partitions(ctx: Context, message: ConsumerGroupHeartbeatRequest) -> set[Partition] | None:
    """Return the partitions that the member reports as owned; None if it does not report any.

    Topics that no assignment ever had cannot matter, and are left out.
    """
    if message.topic_partitions is None:
        return None
    owned: set[Partition] = set()
    for topic in message.topic_partitions:
        number = ctx.numbers.known(topic.topic_id)
        if number is not None:
            base = number << TOPIC_SHIFT
            owned.update([base | index for index in topic.partitions if index >= 0])
    return owned


def names_only(ctx: Context, message: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether every topic that the member reports partitions of is known here."""
    topics = message.topic_partitions or ()
    return all(
        ctx.numbers.known(topic.topic_id) is not None and min(topic.partitions, default=0) >= 0
        for topic in topics
    )
