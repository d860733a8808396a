"""Kafka's range and round-robin assignors, as a classic group's leader runs them.

Range: topic by topic, the subscribed members in order each get a range of consecutive partitions.
Round-robin: all partitions are dealt out to the members in turn. Static members come first, in
order of instance id, so that a member that returns under a new member id gets the same again
(KIP-345, "Client Behavior Changes").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.wire.embedded import TopicPartition


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as the assignor sees it; ``owned`` since ``generation``, if it tells that."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1

    def rank(self) -> tuple[bool, str, str]:
        """Sort key: static members by instance id, then dynamic ones by member id."""
        return self.instance_id is None, self.instance_id or "", self.member_id


def range_assign(
    subscribers: Iterable[Subscriber], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Assign ``partitions`` (topic name to partition count) to the subscribers.

    Every subscriber is in the result, with an empty list if nothing was left for it. Topics that
    are not in ``partitions`` are left out, as by a leader that has no metadata for them.
    """
    assignment: dict[str, list[TopicPartition]] = {}
    subscribed: dict[str, list[str]] = {}
    for subscriber in sorted(subscribers, key=Subscriber.rank):
        assignment[subscriber.member_id] = []
        for topic in dict.fromkeys(subscriber.topics):
            subscribed.setdefault(topic, []).append(subscriber.member_id)
    for topic in sorted(subscribed):
        members = subscribed[topic]
        share, larger_shares = divmod(partitions.get(topic, 0), len(members))
        start = 0
        for position, member_id in enumerate(members):
            end = start + share + (position < larger_shares)
            assignment[member_id].extend((topic, index) for index in range(start, end))
            start = end
    return assignment


def round_robin_assign(
    subscribers: Iterable[Subscriber], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Do the same, partition by partition: each goes to the next member that subscribes to it."""
    ranked = sorted(subscribers, key=Subscriber.rank)
    topics = [frozenset(each.topics) for each in ranked]
    assignment: dict[str, list[TopicPartition]] = {each.member_id: [] for each in ranked}
    turn = 0
    for topic in sorted(frozenset().union(*topics)):
        for index in range(partitions.get(topic, 0)):
            while topic not in topics[turn]:
                turn = (turn + 1) % len(ranked)
            assignment[ranked[turn].member_id].append((topic, index))
            turn = (turn + 1) % len(ranked)
    return assignment
