"""Members of share groups: settings, and whether they have converged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.members.share import ShareMemberConfig

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from failover.simulation.clients.seats import AnyMemberSpec
    from failover.simulation.settings import Settings


def share_config(
    settings: Settings, group_id: str, place: int, topics: tuple[str, ...]
) -> ShareMemberConfig:
    """Return the settings of the member on a seat."""
    return ShareMemberConfig(
        group_id=group_id,
        topics=topics,
        client_id=f"{group_id}/{place}",
        request_timeout_ms=settings.request_timeout_ms,
    )


def draw_topics(rng: random.Random, topics: tuple[str, ...]) -> tuple[str, ...]:
    """Return random topics, at least one."""
    first, more = topics
    return rng.choice(((first,), (first, more), (first, more), (more,)))


def unshared(taken: Sequence[AnyMemberSpec], partitions_of: Mapping[str, int]) -> str:
    """Return what keeps a share group from being whole; empty when it is.

    Every partition of each topic is assigned to a member that subscribes to it, and no member has
    others.
    """
    wanted: set[tuple[str, int]] = set()
    owned: set[tuple[str, int]] = set()
    for spec in taken:
        assert spec.driver is not None
        topics = {*spec.config.topics} & partitions_of.keys()
        wanted |= {(topic, index) for topic in topics for index in range(partitions_of[topic])}
        partitions = set(spec.driver.member.partitions)
        owned |= partitions
        if not {topic for topic, _ in partitions} <= topics:
            return f"{spec.config.client_id} has what it does not subscribe to"
    return "" if owned == wanted else f"{len(owned)} of {len(wanted)} partitions are assigned"
