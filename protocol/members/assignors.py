"""The assignors of classic members: a row each, and what members tell the leader for them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.members.assignor import Subscriber, range_assign, round_robin_assign
from protocol.members.sticky import cooperative_assign, sticky_assign
from protocol.wire.embedded import EmbeddedSubscription

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from protocol.wire.embedded import TopicPartition

_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")
UNKNOWN: Final = -1


class ClassicAssignor(StrEnum):
    """An assignor under Kafka's name: the name of the protocol that members offer."""

    RANGE = "range"
    ROUND_ROBIN = "roundrobin"
    STICKY = "sticky"
    COOPERATIVE_STICKY = "cooperative-sticky"


@dataclass(frozen=True, slots=True)
class LastAssigned:
    """The last assignment of a member, which it may have lost since; ``generation``: its own."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorRow:
    """One row.

    ``assign`` is what the leader does. ``is_cooperative``: members keep their partitions in a
    rebalance, except those that they lose. ``tells`` returns what a member with these topics says
    of what it owns; ``told`` reads that.
    """

    assign: Callable[[Iterable[Subscriber], Mapping[str, int]], dict[str, list[TopicPartition]]]
    is_cooperative: bool
    tells: Callable[[tuple[str, ...], Any], EmbeddedSubscription]
    told: Callable[[EmbeddedSubscription], LastAssigned]


def subscriber(row: AssignorRow, joined: Any, subscription: EmbeddedSubscription) -> Subscriber:
    """Return a member of a JoinGroup answer as its leader's assignor sees it."""
    last = row.told(subscription)
    return Subscriber(
        joined.member_id,
        joined.group_instance_id,
        subscription.topics,
        last.partitions,
        last.generation,
    )


def _tells_nothing(topics: tuple[str, ...], _member: Any) -> EmbeddedSubscription:
    return EmbeddedSubscription(topics=topics)


def _told_nothing(_subscription: EmbeddedSubscription) -> LastAssigned:
    return LastAssigned()


# An eager member has given everything up when it joins: it tells what it had (KIP-54).


def _tells_last(topics: tuple[str, ...], member: Any) -> EmbeddedSubscription:
    last: LastAssigned = member.last_assigned
    return EmbeddedSubscription(topics=topics, user_data=sticky_user_data(last))


def _told_last(subscription: EmbeddedSubscription) -> LastAssigned:
    return read_sticky_user_data(subscription.user_data or b"")


def sticky_user_data(last: LastAssigned) -> bytes | None:
    """Encode the user data of Kafka's sticky assignor, version 1; nothing: there is none."""
    if not last.partitions:
        return None
    topics: dict[str, list[int]] = {}
    for topic, index in last.partitions:
        topics.setdefault(topic, []).append(index)
    parts = [_INT32.pack(len(topics))]
    for topic, indexes in topics.items():
        name = topic.encode()
        parts += [_INT16.pack(len(name)), name, struct.pack(f">{len(indexes) + 1}i",
                                                            len(indexes), *indexes)]  # fmt: skip
    return b"".join([*parts, _INT32.pack(last.generation)])


def read_sticky_user_data(data: bytes) -> LastAssigned:
    """Decode it, version 1 or 0, which has no generation; what is no such data tells nothing."""
    partitions: list[TopicPartition] = []
    try:
        (topics,), at = _INT32.unpack_from(data), _INT32.size
        for _ in range(topics):
            (size,) = _INT16.unpack_from(data, at)
            if size < 0:
                return LastAssigned()
            at += _INT16.size
            topic = data[at : at + size].decode()
            (count,) = _INT32.unpack_from(data, at + size)
            indexes = struct.unpack_from(f">{count}i", data, at + size + _INT32.size)
            at += size + _INT32.size * (1 + count)
            partitions += [(topic, index) for index in indexes]
        generation = _INT32.unpack_from(data, at)[0] if at < len(data) else UNKNOWN
    except (struct.error, UnicodeDecodeError):
        return LastAssigned()
    return LastAssigned(tuple(partitions), generation)


# A cooperative member still has what it tells (KIP-429); the generation is in both places, as in
# Kafka's: members of other clients may tell it in one only.


def _tells_owned(topics: tuple[str, ...], member: Any) -> EmbeddedSubscription:
    last: LastAssigned = member.last_assigned
    return EmbeddedSubscription(
        topics=topics,
        user_data=_INT32.pack(last.generation),
        owned_partitions=member.partitions,
        generation_id=last.generation,
    )


def _told_owned(subscription: EmbeddedSubscription) -> LastAssigned:
    generation, data = subscription.generation_id, subscription.user_data or b""
    if generation == UNKNOWN and len(data) >= _INT32.size:
        (generation,) = _INT32.unpack_from(data, len(data) - _INT32.size)
    return LastAssigned(subscription.owned_partitions, generation)


ASSIGNORS: Final[Mapping[ClassicAssignor, AssignorRow]] = MappingProxyType(
    {
        ClassicAssignor.RANGE: AssignorRow(
            assign=range_assign, is_cooperative=False, tells=_tells_nothing, told=_told_nothing
        ),
        ClassicAssignor.ROUND_ROBIN: AssignorRow(
            assign=round_robin_assign,
            is_cooperative=False,
            tells=_tells_nothing,
            told=_told_nothing,
        ),
        ClassicAssignor.STICKY: AssignorRow(
            assign=sticky_assign, is_cooperative=False, tells=_tells_last, told=_told_last
        ),
        ClassicAssignor.COOPERATIVE_STICKY: AssignorRow(
            assign=cooperative_assign, is_cooperative=True, tells=_tells_owned, told=_told_owned
        ),
    }
)
