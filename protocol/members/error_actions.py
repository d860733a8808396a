"""What each error asks of a member: a table."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping


class ErrorAction(Enum):
    """What an error asks of the member."""

    RETRY = "the same again after a back-off"
    REDISCOVER = "ask who coordinates, after a back-off"
    REJOIN = "join again; the partitions are the member's until then"
    NEW_GENERATION = "join again with the same member id; the partitions are lost"
    NEW_MEMBER_ID = "join again as a new member; the partitions are lost"
    GIVE_UP = "no retry can help"


ERROR_ACTIONS: Final[Mapping[ErrorCode, ErrorAction]] = {
    ErrorCode.coordinator_load_in_progress: ErrorAction.RETRY,
    ErrorCode.coordinator_not_available: ErrorAction.REDISCOVER,
    ErrorCode.not_coordinator: ErrorAction.REDISCOVER,
    ErrorCode.rebalance_in_progress: ErrorAction.REJOIN,
    ErrorCode.illegal_generation: ErrorAction.NEW_GENERATION,
    ErrorCode.unknown_member_id: ErrorAction.NEW_MEMBER_ID,
    ErrorCode.fenced_instance_id: ErrorAction.GIVE_UP,  # KIP-345: taken by another member
}


CONSUMER_ERROR_ACTIONS: Final[Mapping[ErrorCode, ErrorAction]] = {
    ErrorCode.coordinator_load_in_progress: ErrorAction.RETRY,
    ErrorCode.coordinator_not_available: ErrorAction.REDISCOVER,
    ErrorCode.not_coordinator: ErrorAction.REDISCOVER,
    ErrorCode.unknown_member_id: ErrorAction.NEW_GENERATION,
    ErrorCode.fenced_member_epoch: ErrorAction.NEW_GENERATION,
    ErrorCode.unreleased_instance_id: ErrorAction.RETRY,  # its predecessor's session has not ended
    ErrorCode.fenced_instance_id: ErrorAction.GIVE_UP,
}
"""The same for a member of a consumer group (KIP-848): it keeps its member id for good."""


def action_for(error: ErrorCode) -> ErrorAction:
    """Return what ``error`` asks for: the table's row, else what Kafka says of retrying it."""
    return ERROR_ACTIONS.get(error) or (
        ErrorAction.RETRY if error.retriable else ErrorAction.GIVE_UP
    )


JOIN_REASONS: Final[Mapping[ErrorAction | None, str]] = {
    None: "the member starts",
    ErrorAction.REJOIN: "the group rebalances",
    ErrorAction.NEW_GENERATION: "the member's generation is gone",
    ErrorAction.NEW_MEMBER_ID: "the coordinator does not know the member id",
}
"""KIP-800: why the member joins, by what made it join; None is its first time."""
