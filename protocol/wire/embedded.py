"""The blobs that classic consumers put into JoinGroup and SyncGroup: subscription and assignment.

The coordinator passes them on without decoding them, except in a few places that need the topics.
There an undecodable blob becomes None, since a group may use another protocol altogether. A version
newer than ours is decoded as our newest, as in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import kio.schema.consumer_protocol_assignment.v0.data as assignment_v0
import kio.schema.consumer_protocol_assignment.v3.data as assignment_v3
import kio.schema.consumer_protocol_subscription.v0.data as subscription_v0
import kio.schema.consumer_protocol_subscription.v1.data as subscription_v1
import kio.schema.consumer_protocol_subscription.v2.data as subscription_v2
import kio.schema.consumer_protocol_subscription.v3.data as subscription_v3
from kio.serial import entity_reader

from protocol.wire.convert import converter
from protocol.wire.writers import encoder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kio.static.protocol import Entity

TopicPartition: TypeAlias = tuple[str, int]
NEWEST: Final = 3
_SUBSCRIPTIONS: Final[tuple[type[Entity], ...]] = (
    subscription_v0.ConsumerProtocolSubscription,
    subscription_v1.ConsumerProtocolSubscription,
    subscription_v2.ConsumerProtocolSubscription,
    subscription_v3.ConsumerProtocolSubscription,
)
_READ_SUBSCRIPTION: Final = tuple(
    (entity_reader(each), converter(each, _SUBSCRIPTIONS[NEWEST])) for each in _SUBSCRIPTIONS
)
# All four versions of the assignment have the same fields.
_READ_ASSIGNMENT: Final = entity_reader(assignment_v0.ConsumerProtocolAssignment)
_WRITE_SUBSCRIPTION: Final = tuple(encoder(each) for each in _SUBSCRIPTIONS)
_WRITE_ASSIGNMENT: Final = encoder(assignment_v3.ConsumerProtocolAssignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedSubscription:
    """A classic consumer's subscription, and the partitions that it owned at that time."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None


def encode_subscription(
    topics: Iterable[str] | EmbeddedSubscription, version: int = NEWEST
) -> bytes:
    """Encode the metadata of a JoinGroup protocol; topics alone are enough."""
    wanted = (
        topics
        if isinstance(topics, EmbeddedSubscription)
        else EmbeddedSubscription(topics=tuple(topics))
    )
    entity = subscription_v3.ConsumerProtocolSubscription(
        topics=tuple(sorted(wanted.topics)),
        user_data=wanted.user_data,
        owned_partitions=tuple(
            subscription_v3.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in _by_topic(sorted(wanted.owned_partitions))
        ),
        generation_id=wanted.generation_id,
        rack_id=wanted.rack_id,
    )
    return version.to_bytes(2, "big") + _WRITE_SUBSCRIPTION[version](entity)


def decode_subscription(data: bytes) -> EmbeddedSubscription | None:
    """Decode the metadata of a JoinGroup protocol of type ``consumer``; None if it is invalid."""
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        return None
    read, convert = _READ_SUBSCRIPTION[min(version, NEWEST)]
    try:
        entity = convert(read(data, 2)[0])
        return EmbeddedSubscription(
            topics=entity.topics,
            user_data=entity.user_data,
            owned_partitions=_flat(entity.owned_partitions),
            generation_id=entity.generation_id,
            rack_id=entity.rack_id or None,
        )
    except Exception:
        return None


def encode_assignment(
    partitions: Iterable[TopicPartition], user_data: bytes | None = None, version: int = NEWEST
) -> bytes:
    """Encode one member's assignment of a SyncGroup."""
    entity = assignment_v3.ConsumerProtocolAssignment(
        assigned_partitions=tuple(
            assignment_v3.TopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in _by_topic(partitions)
        ),
        user_data=user_data,
    )
    return version.to_bytes(2, "big") + _WRITE_ASSIGNMENT(entity)


@dataclass(frozen=True, slots=True)
class EmbeddedAssignment:
    """A classic consumer's assignment, and the user data of its assignor."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None


def decode_assigned(data: bytes) -> EmbeddedAssignment | None:
    """Decode one member's assignment; None if it is invalid."""
    if len(data) < 2 or int.from_bytes(data[:2], "big", signed=True) < 0:
        return None
    try:
        entity = _READ_ASSIGNMENT(data, 2)[0]
        return EmbeddedAssignment(_flat(entity.assigned_partitions), entity.user_data)
    except Exception:
        return None


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...] | None:
    """Decode the partitions of one member's assignment; None if it is invalid."""
    assignment = decode_assigned(data)
    return None if assignment is None else assignment.partitions


def version_of(data: bytes) -> int:
    """Return the version of a subscription, or the newest known one if it is newer.

    An assignment is encoded in the same version, so that the member can decode it.
    """
    return min(max(int.from_bytes(data[:2], "big", signed=True), 0), NEWEST)


def _by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, tuple[int, ...]]]:
    """Group partitions by topic, in the order in which the topics first occur."""
    numbers: dict[str, list[int]] = {}
    for topic, partition in partitions:
        numbers.setdefault(topic, []).append(partition)
    return [(topic, tuple(found)) for topic, found in numbers.items()]


def _flat(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    return tuple([(each.topic, number) for each in topics for number in each.partitions])
