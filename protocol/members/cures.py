"""What each error asks of a member: a table."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping


class Cure(Enum):
    """What an error asks of the member."""

    RETRY = "the same again after a back-off"
    REDISCOVER = "ask who coordinates, after a back-off"
    REJOIN = "join again; the partitions are the member's until then"
    NEW_GENERATION = "join again with the same member id; the partitions are lost"
    NEW_MEMBER_ID = "join again as a new member; the partitions are lost"
    GIVE_UP = "no retry can help"


CURES: Final[Mapping[ErrorCode, Cure]] = {
    ErrorCode.coordinator_load_in_progress: Cure.RETRY,
    ErrorCode.coordinator_not_available: Cure.REDISCOVER,
    ErrorCode.not_coordinator: Cure.REDISCOVER,
    ErrorCode.rebalance_in_progress: Cure.REJOIN,
    ErrorCode.illegal_generation: Cure.NEW_GENERATION,
    ErrorCode.unknown_member_id: Cure.NEW_MEMBER_ID,
    ErrorCode.fenced_instance_id: Cure.GIVE_UP,  # KIP-345: another member has the instance id now
}


CONSUMER_CURES: Final[Mapping[ErrorCode, Cure]] = {
    ErrorCode.coordinator_load_in_progress: Cure.RETRY,
    ErrorCode.coordinator_not_available: Cure.REDISCOVER,
    ErrorCode.not_coordinator: Cure.REDISCOVER,
    ErrorCode.unknown_member_id: Cure.NEW_GENERATION,
    ErrorCode.fenced_member_epoch: Cure.NEW_GENERATION,
    ErrorCode.unreleased_instance_id: Cure.RETRY,  # its predecessor's session has not ended
    ErrorCode.fenced_instance_id: Cure.GIVE_UP,
}
"""The same for a member of a consumer group (KIP-848): it keeps its member id for good."""


def cure(error: ErrorCode) -> Cure:
    """Return what ``error`` asks for: the table's row, else what Kafka says of retrying it."""
    return CURES.get(error) or (Cure.RETRY if error.retriable else Cure.GIVE_UP)


JOIN_REASONS: Final[Mapping[Cure | None, str]] = {
    None: "the member starts",
    Cure.REJOIN: "the group rebalances",
    Cure.NEW_GENERATION: "the member's generation is gone",
    Cure.NEW_MEMBER_ID: "the coordinator does not know the member id",
}
"""KIP-800: why the member joins, by what made it join; None is its first time."""
