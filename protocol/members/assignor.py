"""Kafka's range assignor, as a classic group's leader runs it.

Topic by topic, the subscribed members in order each get a range of consecutive partitions. Static
members come first, in order of instance id, so that a member that returns under a new member id
gets the same range again (KIP-345, "Client Behavior Changes").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.wire.embedded import TopicPartition


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as the assignor sees it."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]

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
