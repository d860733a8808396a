"""Quiet hours begin when nobody is there any more."""

from failover.simulation.cluster import SimulatedCluster
from failover.simulation.kinds import is_modern
from failover.simulation.one_seed import small_logs
from failover.simulation.quiet import empty
from failover.simulation.settings import CALM, GroupMix, settings_for
from failover.simulation.world import World


def test_members_that_were_doubled_end_with_the_others() -> None:
    """Before the first of two ends by itself: it holds its instance id and goes on for ever."""
    world = World(1, settings_for(1, GroupMix.ALL))
    with small_logs():
        cluster = SimulatedCluster(world)
        cluster.form()
        world.run(20_000)
        doubled = [
            spec
            for spec in cluster.clients.specs
            if spec.config.instance_id is not None and is_modern(spec.config.group_id)
        ]
        assert doubled
        for spec in doubled:
            cluster.clients.start(spec)
        empty(cluster)


def test_nobody_comes_back_while_it_is_quiet() -> None:
    world = World(1, CALM)
    with small_logs():
        cluster = SimulatedCluster(world)
        cluster.form()
        world.run(20_000)
        spec = cluster.clients.specs[0]
        world.after(1_000, cluster.clients.start_if_free, spec)
        empty(cluster)
        assert spec.driver is None
        cluster.clients.begin_again()
        assert spec.driver is not None
