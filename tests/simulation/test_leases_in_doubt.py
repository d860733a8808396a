"""Leases that seeds seldom put to the test, staged; and the checkers bite when a rule is broken."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from failover.host import Host
from failover.routing import partition_for
from failover.simulation.cluster import SimulatedCluster
from failover.simulation.event_log import Violation
from failover.simulation.nodes.process import Process
from failover.simulation.one_seed import small_logs
from failover.simulation.patches import Patch, patched
from failover.simulation.settings import CALM
from failover.simulation.world import World
from storage.core import Core
from storage.leadership import Leadership

WHILE_MS = 20_000
FROZEN_MS = 40_000
DEAF_MS = 60_000


def run(cluster: SimulatedCluster, ms: int) -> None:
    with small_logs(), cluster.checkers.watching():
        cluster.world.run(cluster.world.now + ms)


def formed() -> SimulatedCluster:
    """Give a cluster at rest: members commit too seldom for a follower to lack records."""
    cluster = SimulatedCluster(World(1, replace(CALM, commit_interval_ms=10 * DEAF_MS)))
    cluster.form()
    run(cluster, WHILE_MS)
    return cluster


def leader_of_a_group(cluster: SimulatedCluster) -> Process:
    number = partition_for(cluster.clients.group_ids[0], cluster.processes[0].identity.partitions)
    return next(each for each in cluster.processes if number in each.leading())


def freeze_a_leader() -> None:
    """Have a machine stand still, with its clock, until another leader answers."""
    cluster = formed()
    leader_of_a_group(cluster).pause(FROZEN_MS, freezes_clock=True)
    run(cluster, FROZEN_MS + WHILE_MS)


def freeze_a_leader_as_it_sends() -> None:
    """Have a machine stand still in the millisecond in which it sent what its followers answer."""
    cluster = formed()

    def freeze(process: Process) -> None:
        cluster.world.after(0, lambda: process.pause(FROZEN_MS, freezes_clock=True))

    leader = leader_of_a_group(cluster)
    cluster.checkers.replicated.upon_append[leader.node_id] = freeze
    run(cluster, FROZEN_MS + WHILE_MS)


def deafen_a_follower() -> None:
    """Let a follower hear nothing of its leader, which hears it."""
    cluster = formed()
    leader = leader_of_a_group(cluster)
    deaf = next(each for each in cluster.processes if each is not leader)
    cluster.network.cut.add((leader.node_id, deaf.node_id))
    run(cluster, DEAF_MS)


def doubt_ignored() -> list[Patch]:
    return [(Host, "doubt", lambda self, now: None)]


def doubt_at_its_edge() -> list[Patch]:
    """What was sent in the very millisecond of a freeze may have been sent long ago, too."""
    original = Leadership.doubt

    def doubt(self: Leadership) -> None:
        original(self)
        self._doubted_ms -= 1
        self._renew()

    return [(Leadership, "doubt", doubt)]


def leader_votes_under_its_lease() -> list[Patch]:
    return [(Core, "bound_until", property(lambda self: self.promise_until))]


STAGED = (
    (freeze_a_leader, doubt_ignored, "has a lease in epoch"),
    (freeze_a_leader_as_it_sends, doubt_at_its_edge, "though its clocks moved apart"),
    (deafen_a_follower, leader_votes_under_its_lease, "votes"),
)


@pytest.mark.parametrize("stage", [stage for stage, _, _ in STAGED])
def test_leases_hold(stage: Callable[[], None]) -> None:
    stage()


@pytest.mark.parametrize(("stage", "bug", "found"), STAGED)
def test_a_planted_bug_is_found(
    stage: Callable[[], None], bug: Callable[[], list[Patch]], found: str
) -> None:
    with patched(bug()), pytest.raises(Violation, match=found):
        stage()
