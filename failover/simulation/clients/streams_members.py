"""Members of streams groups: their topology, settings, and whether they have converged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from failover.simulation.kinds import STATEFUL, STATELESS, Task, tasks_in
from protocol.members.streams import StreamsMemberConfig
from protocol.members.topology import internal_topic, subtopology
from protocol.wire.streams_messages import StreamsTopology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from failover.simulation.clients.seats import AnyMemberSpec
    from failover.simulation.settings import Settings

PROCESSES: Final = 2
"""How many processes a group's members are in, besides one for each static member."""


def topology_of(group_id: str, topics: tuple[str, ...]) -> StreamsTopology:
    """Return a group's topology."""
    first, more = topics
    changelog = internal_topic(f"{group_id}-store-changelog")
    return StreamsTopology(
        epoch=1,
        subtopologies=(
            subtopology(STATEFUL, (first,), changelogs=(changelog,)),
            subtopology(STATELESS, (more,)),
        ),
    )


def streams_config(
    settings: Settings, group_id: str, place: int, topics: tuple[str, ...], *, is_static: bool
) -> StreamsMemberConfig:
    """Return the settings of the member on a seat: its process id outlasts the member's id."""
    process = place if is_static else f"process-{place % PROCESSES}"
    return StreamsMemberConfig(
        group_id=group_id,
        topology=topology_of(group_id, topics),
        client_id=f"{group_id}/{place}",
        instance_id=f"{group_id}/{place}" if is_static else None,
        process_id=f"{group_id}/{process}",
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        request_timeout_ms=settings.request_timeout_ms,
    )


def idle_tasks(
    taken: Sequence[AnyMemberSpec], partitions_of: Mapping[str, int], standbys: int
) -> str:
    """Return what keeps a streams group from being whole; empty when it is.

    Every task is active once, and each stateful one has its standby tasks on other processes, if
    there are enough. If a source topic is missing there are no tasks.
    """
    config: Any = taken[0].config
    sources = {each.subtopology_id: each.source_topics[0] for each in config.topology.subtopologies}
    wanted: list[Task] = []
    if partitions_of.keys() >= set(sources.values()):
        wanted = [
            (name, index)
            for name, topic in sorted(sources.items())
            for index in range(partitions_of[topic])
        ]
    active: list[Task] = []
    places: set[tuple[str, Task]] = set()
    held, standing = 0, 0
    for spec in taken:
        assert spec.driver is not None
        member: Any = spec.driver.member
        roles = [tasks_in(tasks) for tasks in member.owned]
        active += roles[0]
        standing += len(roles[1])
        held += sum(map(len, roles))
        places |= {(member.process_id, task) for tasks in roles for task in tasks}
    if sorted(active) != wanted:
        return f"{len(active)} of {len(wanted)} tasks are active"
    if len(places) < held:
        return "a process has a task twice"
    processes = {getattr(spec.config, "process_id", "") for spec in taken}
    stateful = sum(1 for name, _ in wanted if name == STATEFUL)
    expected = stateful * min(standbys, len(processes) - 1)
    return "" if standing == expected else f"there are {standing} of {expected} standby tasks"
