"""A leader that is deposed in the very turn in which it serves a request, staged.

Seeds seldom meet it: a process must stand still until others have elected a leader, and go on while
a client still waits for it.
"""

from dataclasses import replace
from typing import Any

import pytest

from failover.partitions.partition import Partition
from failover.routing import partition_for
from failover.simulation.cluster import SimulatedCluster
from failover.simulation.event_log import Violation
from failover.simulation.one_seed import small_logs
from failover.simulation.patches import Patch, patched
from failover.simulation.settings import CALM
from failover.simulation.world import World

FORMED_MS = 20_000
PAUSED_MS = 60_000
STEP_MS = 50


def depose_a_leader_with_a_commit_in_its_inbox() -> None:
    """Have a leader stand still until another leads, and let it find commits behind the news."""
    settings = replace(CALM, commit_interval_ms=300, turn_ms=3)
    cluster = SimulatedCluster(World(1, settings))
    cluster.form()
    world = cluster.world
    with small_logs(), cluster.checkers.watching():
        world.run(FORMED_MS)
        number = partition_for(cluster.clients.group_ids[0], settings.partitions)
        old = next(each for each in cluster.processes if number in each.leading())
        old.pause(PAUSED_MS)
        while not any(number in each.leading() for each in cluster.processes if each is not old):
            world.run(world.now + STEP_MS)
        world.run(world.now + STEP_MS)
        old.thaw(old.life)
        world.run(world.now + FORMED_MS)


def demoted_machine_kept() -> list[Patch]:
    original = Partition._demote

    def demote(self: Partition, now: int, effects: Any) -> None:
        self._turn.clear()
        original(self, now, effects)

    return [(Partition, "_demote", demote)]


def test_a_deposed_leader_keeps_nothing_that_it_did_not_write() -> None:
    depose_a_leader_with_a_commit_in_its_inbox()


def test_a_planted_bug_is_found() -> None:
    with patched(demoted_machine_kept()), pytest.raises(Violation, match="never written"):
        depose_a_leader_with_a_commit_in_its_inbox()
