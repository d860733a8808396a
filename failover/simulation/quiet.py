"""Quiet hours: what should expire must, and nothing else may.

Hours without clients are cheap: the cluster is switched off, or its machines sleep for most of the
time. In a few seeds it runs idle all the time, or members stay and little changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from failover.routing import partition_for
from failover.simulation.event_log import Violation
from failover.simulation.settings import RETENTION_MINUTES, Quiet

if TYPE_CHECKING:
    from collections.abc import Callable

    from failover.simulation.cluster import SimulatedCluster
    from failover.simulation.faults.groups import GroupInjector

LOOK_MS: Final = 5_000
SLEEP_MS: Final = 25 * 60_000
AWAKE_MS: Final = 10_000


SETTLED_MS: Final = 200_000
"""For less than this nothing expires after clocks were set, or seem to have been set."""


STEP_MS: Final = 15 * 60_000
"""In each step of attended hours one thing changes; regexes are refreshed within it."""

FAILOVERS: Final = 0.3
"""In this share of the steps a node restarts, too."""

RESTART_MS: Final = 30_000

REFRESH_INTERVAL: Final = "group.consumer.regex.refresh.interval.ms"
LATE_MS: Final = 120_000
"""A refresh may be so late: another leader was elected when it was due."""


def attend(cluster: SimulatedCluster, injector: GroupInjector, settle: Callable[[], None]) -> None:
    """Let hours pass with members, and let everything settle after each step.

    All of them commit for the first half, and none for longer than the retention time after that.
    """
    world = cluster.world
    rng = world.random("attended hours")
    steps = 3 + 2 * RETENTION_MINUTES[Quiet.ATTENDED] * 60_000 // STEP_MS
    world.fault("quiet hours, attended", f"{steps * STEP_MS // 60_000} minutes")
    for step in range(steps):
        cluster.clients.commits = step < steps // 2
        kind = injector.change()
        world.tell("", f"step {step} of quiet hours: {kind or 'nothing'} changes")
        if rng.random() < FAILOVERS:
            process = rng.choice(cluster.processes)
            world.fault("kill", f"node {process.node_id} dies in quiet hours")
            process.kill(process.log.unsynced, 1)
            world.after(RESTART_MS, cluster.start, process.node_id)
        world.run(world.now + STEP_MS)
        settle()
        _has_fresh_matches(cluster)


def _has_fresh_matches(cluster: SimulatedCluster) -> None:
    """Check that the matches of regular expressions were refreshed when they were due."""
    world = cluster.world
    interval_ms = int(world.settings.configs.get(REFRESH_INTERVAL, "0"))
    for group_id in cluster.clients.group_ids:
        leader = cluster.leader_of(partition_for(group_id, world.settings.partitions))
        if leader is None or not leader.settled:
            continue  # another one is about to lead
        group = leader.machine._context.groups.get(group_id)  # type: ignore[attr-defined]
        for regex, matches in getattr(group, "regexes", {}).items():
            age_ms = world.client_now - matches.timestamp_ms
            if age_ms > interval_ms + LATE_MS:
                raise Violation(f"what {regex} matches is {age_ms} ms old", group_id)


def empty(cluster: SimulatedCluster) -> None:
    """End all members; check that their groups notice that within bounded time."""
    cluster.clients.end_all()
    world, settings = cluster.world, cluster.world.settings
    patience_ms = 2 * (settings.session_timeout_ms + settings.rebalance_timeout_ms)
    deadline = world.now + patience_ms
    while left := [each for each in cluster.clients.group_ids if _has_members(cluster, each)]:
        if world.now > deadline:
            raise Violation(
                f"nobody is there for {patience_ms} ms, and the group has members still", left[0]
            )
        world.run(world.now + LOOK_MS)


def _has_members(cluster: SimulatedCluster, group_id: str) -> bool:
    """Return whether a group's newest leader knows members of it, or their end may be lost."""
    leader = cluster.leader_of(partition_for(group_id, cluster.world.settings.partitions))
    if leader is None or not leader.settled:
        return True
    group = leader.machine._context.groups.get(group_id)  # type: ignore[attr-defined]
    return group is not None and group.has_members


def pass_hours(cluster: SimulatedCluster, quiet: Quiet, hours_ms: int) -> None:
    """Let time pass; afterwards every node is up."""
    world = cluster.world
    world.fault(f"quiet hours, {quiet}", f"{hours_ms // 60_000} minutes")
    until = world.now + hours_ms
    if quiet is Quiet.OFF:
        for process in cluster.processes:
            process.kill(process.log.unsynced, 1)
        world.run(until)
        for process in cluster.processes:
            cluster.start(process.node_id)
    elif quiet is Quiet.ASLEEP:
        while world.now < until:
            for process in cluster.processes:
                process.pause(SLEEP_MS)
            world.run(world.now + SLEEP_MS + AWAKE_MS)
    else:
        world.run(until)
