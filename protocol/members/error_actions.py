"""The table of a member's action for each error."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping


class ErrorAction(Enum):
    """A member's reaction to an error."""

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


_HEARTBEAT_ERROR_ACTIONS: Final[Mapping[ErrorCode, ErrorAction]] = {
    ErrorCode.coordinator_load_in_progress: ErrorAction.RETRY,
    ErrorCode.coordinator_not_available: ErrorAction.REDISCOVER,
    ErrorCode.not_coordinator: ErrorAction.REDISCOVER,
    ErrorCode.unknown_member_id: ErrorAction.NEW_GENERATION,
    ErrorCode.fenced_member_epoch: ErrorAction.NEW_GENERATION,
}
"""The same for a member that keeps its member id forever (KIP-848 and later protocols)."""

_STATIC_ERROR_ACTIONS: Final[Mapping[ErrorCode, ErrorAction]] = {
    **_HEARTBEAT_ERROR_ACTIONS,
    ErrorCode.unreleased_instance_id: ErrorAction.GIVE_UP,  # held by another member
    ErrorCode.fenced_instance_id: ErrorAction.GIVE_UP,
}

CONSUMER_ERROR_ACTIONS: Final = _STATIC_ERROR_ACTIONS
"""The same for a member of a consumer group (KIP-848)."""

SHARE_ERROR_ACTIONS: Final[Mapping[ErrorCode, ErrorAction]] = {
    **_HEARTBEAT_ERROR_ACTIONS,
    ErrorCode.topic_authorization_failed: ErrorAction.RETRY,  # access may be granted later
    ErrorCode.group_authorization_failed: ErrorAction.GIVE_UP,
    ErrorCode.invalid_request: ErrorAction.GIVE_UP,
    ErrorCode.group_max_size_reached: ErrorAction.GIVE_UP,
    ErrorCode.unsupported_version: ErrorAction.GIVE_UP,
    ErrorCode.group_id_not_found: ErrorAction.GIVE_UP,  # of another type
}
"""The same for a member of a share group (KIP-932)."""

STREAMS_ERROR_ACTIONS: Final[Mapping[ErrorCode, ErrorAction]] = {
    **SHARE_ERROR_ACTIONS,
    **_STATIC_ERROR_ACTIONS,
    ErrorCode.streams_invalid_topology: ErrorAction.GIVE_UP,
    ErrorCode.streams_invalid_topology_epoch: ErrorAction.GIVE_UP,
    ErrorCode.streams_topology_fenced: ErrorAction.GIVE_UP,  # the application was upgraded
}
"""The same for a member of a streams group (KIP-1071)."""


def action_for(error: ErrorCode) -> ErrorAction:
    """Return the action for ``error``: the table's row, otherwise whether Kafka retries it."""
    return ERROR_ACTIONS.get(error) or (
        ErrorAction.RETRY if error.retriable else ErrorAction.GIVE_UP
    )


JOIN_REASONS: Final[Mapping[ErrorAction | None, str]] = {
    None: "the member starts",
    ErrorAction.REJOIN: "the group rebalances",
    ErrorAction.NEW_GENERATION: "the member's generation is gone",
    ErrorAction.NEW_MEMBER_ID: "the coordinator does not know the member id",
}
"""KIP-800: the reason for a join, by its cause; None is the first join."""
