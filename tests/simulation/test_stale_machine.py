"""An older copy of a whole machine is refused by its peers, and the checkers bite when it is not.

Seeds seldom meet it: no disk may be missing at that moment, so it is staged here.
"""

from collections.abc import Callable

import pytest

from failover.simulation.cluster import SimulatedCluster
from failover.simulation.event_log import Violation
from failover.simulation.one_seed import small_logs
from failover.simulation.patches import Patch, patched
from failover.simulation.settings import CALM
from failover.simulation.world import World
from storage.disk import incarnation

WHILE_MS = 20_000


def formed_cluster() -> SimulatedCluster:
    """Return a cluster that has run for a while."""
    cluster = SimulatedCluster(World(1, CALM))
    cluster.form()
    cluster.world.run(WHILE_MS)
    return cluster


def put_an_older_machine_back() -> SimulatedCluster:
    """Restart a node whose directory was copied, and put the copy back with all beside it."""
    with small_logs():
        cluster = formed_cluster()
        world, process = cluster.world, cluster.processes[0]
        copy = process.directory.copy()
        for _ in range(2):
            process.kill(0, 1)
            world.run(world.now + 1_000)
            cluster.start(0)
            world.run(world.now + WHILE_MS)
        process.kill(0, 1)
        process.put(copy)
        copy.is_unmarked = True
        process.disk.witness = copy.incarnation.seen
        world.run(world.now + 1_000)
        cluster.start(0)
        world.run(world.now + WHILE_MS)
    return cluster


def test_a_copy_is_refused_when_it_is_opened() -> None:
    """The file beside the directory knows of a later start: nobody needs to be asked."""
    with small_logs():
        cluster = formed_cluster()
        world, process = cluster.world, cluster.processes[0]
        copy = process.directory.copy()
        copy.is_unmarked = True
        process.kill(0, 1)
        cluster.start(0)
        world.run(world.now + WHILE_MS)
        process.kill(0, 1)
        process.put(copy)
        cluster.start(0)
        assert process.is_waiting
        world.run(world.now + WHILE_MS)
        assert not process.directory.is_old, "the others have everything without it"


def stale_copies_trusted() -> list[Patch]:
    return [(incarnation, "descends", lambda claim, seen: True)]


def starts_not_remembered() -> list[Patch]:
    return [(incarnation.SeenIncarnations, "learn", lambda self, claim: False)]


def test_peers_refuse_an_older_machine() -> None:
    cluster = put_an_older_machine_back()
    assert not cluster.processes[0].directory.is_old


BUGS = (stale_copies_trusted, starts_not_remembered)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: Callable[[], list[Patch]]) -> None:
    with patched(bug()), pytest.raises(Violation, match="an older copy"):
        put_an_older_machine_back()
