"""A damaged log stays where it is while others lack something, staged; and the checker bites."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from failover.control import healing
from failover.simulation.cluster import SimulatedCluster
from failover.simulation.event_log import Violation
from failover.simulation.one_seed import small_logs
from failover.simulation.patches import Patch, patched
from failover.simulation.settings import CALM
from failover.simulation.world import World
from storage.leadership import Leadership

WHILE_MS = 20_000
BEHIND_MS = 3_000
WAITS_MS = 4_000
"""Less than a leader waits for a majority."""


def damage_a_log_while_another_is_behind() -> None:
    """Of three voters one stands still, and a second one's disk turns out to be rotten."""
    world = World(1, replace(CALM, commit_interval_ms=300))
    with small_logs():
        cluster = SimulatedCluster(world)
        cluster.form()
        world.run(WHILE_MS)
        damaged, behind, _ = cluster.processes
        cluster.drain(damaged.node_id)
        world.run(world.now + WHILE_MS)
        assert not damaged.leading()
        behind.pause(BEHIND_MS + WAITS_MS)
        world.run(world.now + BEHIND_MS)
        damaged.disk.is_rotten = True
        damaged.kill(damaged.log.unsynced, 1)
        cluster.start(damaged.node_id)
        world.run(world.now + WAITS_MS - 1)
        assert damaged.is_waiting
        world.run(world.now + 2 * WHILE_MS)
        assert damaged.is_alive, "by now the others have everything"


def set_aside_when_one_has_everything() -> list[Patch]:
    return [(healing, "majority", lambda voters: 1)]


def voters_complete_that_are_behind() -> list[Patch]:
    def complete(self: Leadership) -> tuple[int, ...]:
        return tuple(voter.node_id for voter in self.core.voters.current)

    return [(Leadership, "complete", property(complete))]


BUGS = (set_aside_when_one_has_everything, voters_complete_that_are_behind)


def test_a_damaged_log_is_set_aside_when_most_others_have_everything() -> None:
    damage_a_log_while_another_is_behind()


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: Callable[[], list[Patch]]) -> None:
    with patched(bug()), pytest.raises(Violation, match="is set aside, and 1 others"):
        damage_a_log_while_another_is_behind()
