"""Groups of Stable members, for measuring heartbeats and commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.client.blocking_client import BlockingClient
from bench.client.reactor import Reactor
from bench.load.joining import GroupPlan, Joiner, JoiningMember

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.servers.server import Server

TOPIC: Final = "bench"


def stable_groups(
    server: Server, group_ids: Iterable[str], members_each: int
) -> list[tuple[GroupPlan, JoiningMember]]:
    """Make these groups Stable; return every member with its group, ordered by group."""
    reactor = Reactor()
    ready: list[tuple[GroupPlan, JoiningMember]] = []
    try:
        with BlockingClient(server.address) as connection:
            connection.create_topic(TOPIC, members_each)
            for group_id in group_ids:
                plan = GroupPlan(
                    group_id=group_id, topic=TOPIC, instance_ids=(None,) * members_each
                )
                address = connection.coordinator(plan.group_id)
                joiner = Joiner(plan, reactor, reactor.open(address, members_each))
                joiner.join_all()
                ready.extend((plan, member) for member in joiner.members)
    finally:
        reactor.close()
    return ready
