"""Checks of requests about share groups, in Kafka's order and with its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.modern.hard_state import JOIN_EPOCH, LEAVE_EPOCH
from protocol.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.share.group import ShareGroupMember
    from protocol.wire.messages import ShareGroupHeartbeatRequest

SHARE_VERSION: Final = "share.version"

MEMBER_ID_LENGTH_MAX: Final = 36
"""Characters of a UUID in hexadecimal: members choose their ids."""

TEXT_LENGTH_MAX: Final = 32_767
"""Characters that fit into a Kafka string in any version; longer ids are refused."""


def check_served(ctx: Context) -> None:
    """Refuse if share groups are disabled."""
    if not ctx.configs.integer(SHARE_VERSION):
        raise KafkaError(ErrorCode.unsupported_version)


def check_heartbeat(ctx: Context, message: ShareGroupHeartbeatRequest) -> None:
    """Refuse a request that lacks a field or contradicts itself."""
    check_served(ctx)
    if not 0 < len(message.member_id) <= MEMBER_ID_LENGTH_MAX:
        raise _invalid("Invalid member id in the request.")
    for name, text in (
        ("MemberId", message.member_id),
        ("GroupId", message.group_id),
        ("RackId", message.rack_id),
    ):
        if text is not None and not text.strip():
            raise _invalid(f"{name} can't be empty.")
        if text is not None and len(text) > TEXT_LENGTH_MAX:
            raise _invalid("An id is too long.")
    if message.member_epoch == JOIN_EPOCH:
        if not message.subscribed_topic_names:
            raise _invalid("SubscribedTopicNames must be set in first request.")
    elif message.member_epoch < LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")


def check_epoch(member: ShareGroupMember, epoch: int) -> None:
    """Accept 0 (a join), the current epoch, and the previous one: its answer may have been lost."""
    known, previous = member.assignment.epoch, member.assignment.previous_epoch
    if epoch in (JOIN_EPOCH, known, previous) and epoch <= known:
        return
    again = " The member must abandon all its partitions and rejoin."
    if epoch > known:
        raise KafkaError(
            ErrorCode.fenced_member_epoch,
            f"The share group member has a greater member epoch ({epoch}) than the one known by the"
            f" group coordinator ({known}).{again}",
        )
    raise KafkaError(
        ErrorCode.fenced_member_epoch,
        f"The share group member has a smaller member epoch ({epoch}) than the one known by the"
        f" group coordinator ({known}), and it does not match the previous member epoch"
        f" ({previous}).{again}",
    )


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, sentence)
